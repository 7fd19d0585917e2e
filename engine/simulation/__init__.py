"""Simulation of kube-scheduler's cycle, which shows where pods would go without binding them.

Belongs here: the resources of nodes, eligibility, pods scheduled in order, and the outcomes;
docs/simulate.md says what is modelled. Must not: files, terminals, and the decisions of policies,
which are the engine's.
"""
