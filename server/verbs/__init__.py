"""The four verbs of kube-scheduler: filter, prioritize, preempt and bind.

Belongs here: reading a verb's request, asking the engine, and encoding the answer. Must not:
decisions (`engine`), routes and metrics (`server`), starting and stopping (`server.runtime`).
"""
