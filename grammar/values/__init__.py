"""Values of the language and pure functions over them, one topic a file.

Folding, the plain evaluator and compiled programs call the same ones. Must not: trees, names,
records' fields.
"""
