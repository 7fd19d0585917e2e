"""The commands, one file each.

Belongs here: the arguments, the work and the output of one command. Its `configure` adds the
arguments to a parser; its `run` returns an exit code. Must not: anything that two commands need.
"""
