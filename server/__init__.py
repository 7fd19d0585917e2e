"""The HTTP face: what kube-scheduler and the API server send and get, health, metrics.

Belongs here: the wire formats of the extender and of webhooks, routes, deadlines, limits of a
request, what operators see of calls. Must not: decisions, which are asked of a `Decider` that is
passed in; calls of Kubernetes' API; files, terminals and flags, which are `cli`'s.
"""
