"""Decision: the request pod of one call, the plan for its shape, and each node's verdict.

Belongs here: filtering, scoring, preemption, placement by counts, and the record of what was
decided. Must not: how a policy is compiled (`engine.program`), how pods are counted
(`engine.counting`), HTTP.
"""
