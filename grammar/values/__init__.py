"""Values of the language and pure functions over them, one topic a file.

Belongs here: what folding, the evaluator and compiled programs all call. Must not: syntax trees,
names, the fields of records.
"""
