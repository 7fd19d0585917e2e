"""Tests of `cli.simulating`."""
