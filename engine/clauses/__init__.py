"""Kinds of clauses: the meaning of each for the engine, a file for each, and programs of policies.

Belongs here: how a kind is compiled, its needs, its evidence for an explanation, and the part of a
pod for kube-scheduler. Must not: arithmetic of counts and cards, decisions, syntax (`grammar`).
"""
