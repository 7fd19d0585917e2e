"""What policies mean: checked trees compiled to closures, and policies to programs.

Belongs here: compilation, its stages, tracing. Must not: the cache, HTTP, anything that awaits.
"""
