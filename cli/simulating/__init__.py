"""What `placet simulate` reads and shows: clusters, pods and traces in; tables and charts out.

Belongs here: files of pods, the openb trace as Kubernetes objects, and how results are laid out.
Must not: how pods are scheduled, which is `engine.simulation`.
"""
