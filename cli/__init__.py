"""CLI: the command line, and the one place that builds every part of Placet.

Belongs here: arguments, commands, terminal output and exit codes. Must not: decisions, the HTTP
format, or anything that another package imports. No package depends on `cli`.
"""
