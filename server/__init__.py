"""The HTTP face: what kube-scheduler sends and gets, health, metrics.

Belongs here: the extender's wire format, routes, deadlines, limits of a request, and what operators
see of calls. Must not: decisions, which are asked of a `Decider` that is passed in; Kubernetes'
API; files, terminals and flags, which are `cli`'s.
"""
