"""The policy language: text to a checked tree, and the plain evaluator that says what it means.

Belongs here: syntax, types, values, checks, diagnostics. Must not: I/O, asyncio, Kubernetes
clients, anything that knows of a cluster. Only `grammar.parser` imports lark.
"""
