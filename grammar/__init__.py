"""Grammar: policy text to a checked tree, and the evaluator that defines its meaning.

Belongs here: syntax, types, values, checks, diagnostics. Must not: I/O, asyncio, Kubernetes
clients, knowledge of a cluster. Only `grammar.syntax.parser` imports lark.
"""
