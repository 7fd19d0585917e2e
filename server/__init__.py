"""The HTTP server of the extender: what kube-scheduler, the API server and operators call.

Belongs here: wire formats of the extender and of webhooks, routes, deadlines, limits of a request,
TLS, health, metrics. Must not: decisions, which come from a `Decider` that is passed in; flags and
terminals, which are `cli`'s.
"""
