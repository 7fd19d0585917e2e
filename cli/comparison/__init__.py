"""`placet compare`: which pods and nodes an edit of policies decides differently.

Belongs here: worlds that two versions are asked about, proofs about all worlds, and answers.

Must not: decide anything; the engine that serves decides here too.
"""
