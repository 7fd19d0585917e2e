"""Objects of the API as the engine keeps them: pods, nodes, workloads, and what pods request.

Belongs here: decoders, the structs that they make, and everything that follows from one object
alone. Must not: several objects at a time (`engine.cache`), the meaning of policies
(`engine.program`).
"""
