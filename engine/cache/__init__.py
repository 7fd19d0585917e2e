"""What is known of the cluster: its nodes with the pods on them, in one immutable view a request.

Belongs here: where that view comes from and how it is kept. Must not: what policies mean
(`engine.program`), connections to an API server (`engine.cluster`).
"""
