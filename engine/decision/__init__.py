"""One call: the request pod, the plan for its shape, and the verdict, score or veto of each node.

Belongs here: filtering, scoring, preemption, placement by counts, and the record of what was
decided. Must not: how a policy is compiled (`engine.program`), how pods are counted
(`engine.counting`), HTTP.
"""
