"""Tests of `cli.policy_tests` without its command: fixtures, runs and coverage of test blocks."""
