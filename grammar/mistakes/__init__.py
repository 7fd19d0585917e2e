"""The room of mistakes: what is meant by a text that is wrong, entered only when there is one.

Belongs here: wishes in plain English, and trials of hints. Must not: anything that a text without
an error needs; nothing below imports from here.
"""
