"""Metrics: what `/metrics` serves.

Belongs here: every metric and the method that counts it. Must not: decide when something is
counted, which is up to the code that counts.
"""
