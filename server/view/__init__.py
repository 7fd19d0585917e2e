"""The view: the decisions and the state of a replica, shown on a listener of its own.

Belongs here: the routes of the view, the page, drafts, explanations, states of policies. Must not:
verbs of kube-scheduler (`server.verbs`), the form of answers (`server.answers`).
"""
