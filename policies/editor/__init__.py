"""Editing: what an editor shows of a text that somebody writes, at an offset of it.

Belongs here: what may follow, what a name stands for and where it is defined, the pieces for
colours; for texts with errors too. The REPL, the language server and the page use it.
Must not: protocols of editors (`cli`, `server`), what a text means (`grammar`).
"""
