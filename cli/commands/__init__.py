"""The commands, a file each.

Belongs here: what one command takes, does and prints. A command's `configure` adds its arguments to
a parser; its `run` returns an exit code. Must not: anything that two commands need.
"""
