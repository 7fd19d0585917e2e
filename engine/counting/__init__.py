"""Counting: how many pods are in each group of nodes, and where one more may go.

Belongs here: groups, counts, headroom, and in-flight pods. Must not: how tallies are kept
(`engine.cache.tallies`), what a clause means (`engine.program`), which nodes are offered
(`engine.decision.placement`).
"""
