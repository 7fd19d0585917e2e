"""Doctor: configurations of kube-scheduler, generated with Placet or checked.

Belongs here: the format of a KubeSchedulerConfiguration and of the older Policy, and the effect of
their fields on Placet. Must not: the arguments of a command, the HTTP format, and decisions.
"""
