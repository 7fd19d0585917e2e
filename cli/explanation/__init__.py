"""Explanations of `placet explain` and `placet analyze`: the decision about a pod, and its layout.

Belongs here: asking an engine or a server about a pod, and the layout of the answer. Must not:
decisions (`engine`), arguments of the commands (`cli.commands`).
"""
