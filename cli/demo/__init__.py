"""The demo of `placet serve --demo`: an embedded cluster, and policies for it.

Belongs here: that cluster, those policies, and the question that the demo tells people to ask.
Must not: anything that serves a real cluster.
"""
