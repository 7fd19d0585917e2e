"""Tests of `engine.portable`."""
