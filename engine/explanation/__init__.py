"""Explanations: what an inspection says of a pod and a node, with the clauses as they are written.

Belongs here: the clauses of policies with their texts, the evidence of each clause, and its form
for programs. Must not: decisions (`engine.decision`), the layout of texts (`cli.explanation`).
"""
