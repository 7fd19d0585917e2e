"""Explanations: one account of a decision, with its evidence, and what it is made of."""
