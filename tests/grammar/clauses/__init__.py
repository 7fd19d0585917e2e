"""Kinds of clauses: what their table says of each, and of their parts."""
