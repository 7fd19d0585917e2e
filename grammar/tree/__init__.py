"""The tree of a policy: sources, spans, types, expressions, clauses, walks, and its printed text.

Belongs here: what a policy is, once it is read, and back to text. Must not: reading text
(`grammar.syntax`), the meaning of names (`grammar.meaning`), messages.
"""
