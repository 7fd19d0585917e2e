"""Conformance of an extender that runs to its contract with kube-scheduler.

Belongs here: what is asked about each line of docs/extender.md (`cases.yaml`), the checks of
answers, the stand-in of an API server, and the report. Must not: anything of Placet's own answers;
to this package Placet is one extender of many.
"""
