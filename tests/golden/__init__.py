"""Whole reports, kept as files and compared letter by letter."""
