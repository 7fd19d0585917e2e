"""The checker: a tree to a checked tree with types, or diagnostics with remedies.

Belongs here: types of expressions, what each clause may contain, parameters, remedies of names and
types. Must not: checks of a policy that type-checks (`grammar.rules`).
"""
