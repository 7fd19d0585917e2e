"""Layout of explanations for the terminal: what a PodExplanation says, as lines and tables.

Belongs here: the layout of what `engine.explanation` has found out, and asking an offline engine
for it. Must not: decisions (`engine`), arguments of the commands (`cli.commands`).
"""
