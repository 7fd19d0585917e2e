"""Syntax: text to tree, and what is said of a text that is not one.

Belongs here: the grammar, tokens, builders of the tree. Must not: what to write for a mistake
(`grammar.mistakes`), types and names (`grammar.checker`). Here only the parser imports lark.
"""
