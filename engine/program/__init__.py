"""The meaning of policies: checked trees compiled to closures, and policies to programs.

Belongs here: compilation, fast paths, the stages of evaluation, tracing. Must not: the cache, HTTP,
anything that awaits.
"""
