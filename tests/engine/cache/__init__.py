"""Tests of `engine.cache`: views of a cluster, built from objects that the test makes."""
