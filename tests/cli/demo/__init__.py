"""Tests of `cli.demo`."""
