"""Tests of `engine.counting`: numbers, groups and in-flight pods, without an engine."""
