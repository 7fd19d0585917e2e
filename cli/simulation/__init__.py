"""`placet simulate`: schedules pods on a cluster in files, and shows the result.

Belongs here: reading clusters and pods, and the layout of results.

Must not: how pods are scheduled, which is in `engine.simulation`.
"""
