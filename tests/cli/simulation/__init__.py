"""Tests of `cli.simulation`."""
