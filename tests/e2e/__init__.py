"""End-to-end tests: Placet under a real kube-scheduler, on a real API server, over loopback only.

What belongs here: starting the programs, putting objects into the cluster, and asserting what users
see, that is, where pods land, what their events say, and how often the extender is asked. What must
not: imports of Placet's packages. Placet is started as its own process, as users start it.
"""
