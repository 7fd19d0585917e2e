"""Metrics: what `/metrics` serves, and the warnings about wrong configuration that are counted.

Belongs here: every metric and the method that counts it. Must not: decide when something is
counted, which is up to the code that counts.
"""
