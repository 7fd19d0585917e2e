"""A model of kube-scheduler's cycle, to see where pods would go without sending any there.

Belongs here: what a node has room for, what keeps a pod off it, pods taken in order, and what came
of them; docs/simulate.md says what is modelled. Must not: files, terminals, and decisions of
policies, which are the engine's.
"""
