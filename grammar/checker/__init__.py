"""The checker: a tree to a checked tree with types, or diagnostics.

Belongs here: types of expressions, what each clause may contain, parameters. Must not: what to
write for a mistake (`grammar.mistakes`); checks of a policy that type-checks (`grammar.rules`).
"""
