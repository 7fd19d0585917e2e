"""The room of mistakes: what is meant by a text that is wrong, entered only when there is one.

Belongs here: what to write for a word that the parser stops at or a part that the checker finds
wrong, items of plain English and of other languages, and the trial of a hint. Must not: anything
that a text without an error needs. Nothing below imports from here; `grammar.messages.diagnostics`
asks.
"""
