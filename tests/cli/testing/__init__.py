"""Tests of `cli.testing` without its command: fixtures, runs and coverage of test blocks."""
