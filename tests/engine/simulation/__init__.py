"""Tests of `engine.simulation`."""
