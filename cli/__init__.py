"""The terminal face, and the one place that builds everything from its parts.

Belongs here: arguments, commands, what a terminal shows, exit codes. Must not: decisions, the wire,
or anything that another package would want to import; nothing may depend on `cli`.
"""
