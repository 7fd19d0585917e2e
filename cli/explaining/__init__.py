"""`placet explain` and `placet analyze`: what the policies make of one pod, and how it is shown.

Belongs here: asking an engine or a server about a pod, and the layout of the answer. Must not:
decisions (`engine`), arguments of the commands (`cli.commands`).
"""
