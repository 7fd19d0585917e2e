"""kube-scheduler's own configuration: written for Placet, and read to find what is wrong with it.

Belongs here: what a KubeSchedulerConfiguration and the Policy before it look like, and what each of
their fields does to Placet. Must not: the arguments of a command, the wire, and decisions.
"""
