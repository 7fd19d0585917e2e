"""The demo of `placet serve --demo`: an embedded cluster, and policies for it.

Belongs here: the cluster and the policies of the demo, and the question to ask it. Must not:
anything that serves a real cluster.
"""
