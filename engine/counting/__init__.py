"""Shares, spreads and limits: how many pods are where, and where one more may go.

Belongs here: what is counted, for whom, and pods that are on their way to a node. Must not: how
counts are kept (`engine.cache.tallies`), and what a clause says (`engine.program`).
"""
