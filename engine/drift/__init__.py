"""Drift: the pods that break rules where they are, why, and what a repair would do.

Belongs here: the survey of all pods, the document that everybody shows, and the pods that nobody
may evict. Must not: HTTP, terminals, and the eviction of a pod.
"""
