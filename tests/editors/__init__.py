"""Tests with real editors, and of the files that editors read."""
