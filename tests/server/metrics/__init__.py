"""Metrics: each has its row in the docs, and counts what it says."""
