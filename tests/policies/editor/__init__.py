"""Tests of what an editor shows."""
