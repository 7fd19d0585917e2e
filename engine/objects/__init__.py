"""Objects of the API as the engine keeps them: bytes to pods, nodes, workloads and resources.

Belongs here: decoders, the structs that they make, and what kube-scheduler computes from an object
alone. Must not: more than one object at a time (`engine.cache`), what policies mean
(`engine.program`).
"""
