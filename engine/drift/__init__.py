"""Drift: the pods that break rules where they are, and what a repair would do.

Belongs here: the survey of all pods, the document that everybody shows, and what a repair may do
now. Must not: HTTP, terminals, and the eviction of a pod.
"""
