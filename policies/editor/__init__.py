"""Editing: what an editor shows of a text that somebody writes, at an offset of it.

Belongs here: completion, the meaning of a name and its definition, for texts
with errors too. The REPL, the language server and the page use it.
Must not: protocols of editors (`cli`, `server`), what a text means (`grammar`).
"""
