"""Answers of the real Go code to inputs kept here; ours must be the same."""
