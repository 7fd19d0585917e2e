"""Tests of `cli`: commands run as users run them, judged by output and exit code."""
