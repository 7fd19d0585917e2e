"""Cache: the state of the cluster, nodes with the pods on them, in one immutable snapshot.

Belongs here: reflectors, stores, the cache and its snapshots. Must not: the meaning of policies
(`engine.program`), connections to an API server (`engine.cluster`).
"""
