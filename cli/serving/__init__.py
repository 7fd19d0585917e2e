"""Serving: the flags of `placet serve`, its configuration file, and access to sources of data.

Belongs here: flags, their types, and the file that may have them instead. Must not: starting the
server (`cli.commands.serve`), the settings of a running one (`server.settings`).
"""
