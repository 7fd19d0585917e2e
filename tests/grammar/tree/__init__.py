"""The syntax tree, and what is read of it."""
