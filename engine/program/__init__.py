"""Program: the meaning of policies, as checked trees are compiled to closures and programs.

Belongs here: compilation, fast paths, the stages of evaluation, tracing. Must not: the cache, HTTP,
anything that awaits.
"""
