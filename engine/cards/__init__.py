"""Cards of nodes, such as GPUs: what pods take of them, what is left, and how fragmented that is.

Belongs here: the arithmetic of cards, and the functions that give it to policies. Must not: how a
clause is compiled (`engine.program`), and which cards a pod gets (`engine.decision`).
"""
