"""Engine: which policies concern a pod, which nodes they leave, and how they rank them.

Belongs here: the decision over an immutable snapshot of the cluster, and the snapshot. Must not:
HTTP, terminals, the policy text's syntax. Only `engine.cluster` imports kubernetes_asyncio.
"""
