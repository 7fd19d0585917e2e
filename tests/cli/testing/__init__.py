"""Tests of `cli.testing`: what a test block means, without its command."""
