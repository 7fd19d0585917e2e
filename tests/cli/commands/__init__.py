"""Tests of `cli.commands`: commands run as users run them, judged by output and exit code."""
