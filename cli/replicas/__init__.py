"""Asking the running Placet: its replicas, and their views.

Belongs here: finding replicas, and requests to their views. Must not: the view itself
(`server.view`), the layout and the arguments of single commands (`cli.commands`).
"""
