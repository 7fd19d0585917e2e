"""Tests of `engine`: decisions over views of a cluster that the test builds."""
