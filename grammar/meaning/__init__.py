"""Meaning: what names and functions stand for, and the value of an expression.

Belongs here: the schema, environments, the evaluator that defines the language, constants, the
values that an expression can have, the steps that it takes, forms that are written out in the
language. Must not: diagnostics of whole policies (`grammar.checker`), compiled programs
(`engine.program`).
"""
