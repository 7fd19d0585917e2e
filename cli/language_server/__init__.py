"""The language server: what editors show of policy files, in their protocol (LSP).

Belongs here: the files around an open text, positions as editors count them, the requests of
editors. Must not: what is shown (`policies.editor`).
"""
