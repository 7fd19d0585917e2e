"""Tests of `engine.program`."""
