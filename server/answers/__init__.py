"""Answers of the view: the structs that it sends as JSON.

Belongs here: the form of each answer. Must not: routes (`server.view`), decisions (`engine`).
"""
