"""Configurations of kube-scheduler: generated ones with Placet, and checks of existing ones.

Belongs here: the format of a KubeSchedulerConfiguration and of the older Policy, and the effect of
their fields on Placet. Must not: the arguments of a command, the HTTP format, and decisions.
"""
