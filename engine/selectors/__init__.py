"""Selectors: conditions of policies as kube-scheduler's selectors state them.

Belongs here: label selectors, conditions as selectors, and the parts of a pod that these are in.
Must not: kinds of clauses (`engine.clauses`), the form of one pod (`engine.portable`).
"""
