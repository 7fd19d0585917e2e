"""Tests of `engine.cache`: reflectors, the cache and its snapshots."""
