"""The tree: what is printed of it."""
