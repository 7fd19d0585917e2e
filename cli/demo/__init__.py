"""What `placet serve --demo` shows: a cluster that nobody has to own, and policies about it.

Belongs here: that cluster, those policies, and the question that the demo tells people to ask.
Must not: anything that serves a real cluster.
"""
