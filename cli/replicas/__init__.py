"""Asking the running Placet: its replicas, their views, and the layout of what these answer.

Belongs here: finding replicas, requests to their views, and the layout of decisions and status.
Must not: the view itself (`server.view`), arguments of single commands (`cli.commands`).
"""
