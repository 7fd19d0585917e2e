"""Syntax: text to tree, and what is said of a text that is not one.

Belongs here: the grammar, tokens, builders of the tree, remedies of syntax errors. Must not: types
and names (`grammar.checker`). Only `grammar.syntax.parser` imports lark.
"""
