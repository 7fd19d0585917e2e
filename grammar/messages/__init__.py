"""Messages: diagnostics and the texts in them.

Belongs here: the form of a diagnostic, the wording of each, habits from other languages, texts as
they are shown. Must not: find a mistake (`grammar.syntax`, `grammar.checker`, `grammar.rules`).
"""
