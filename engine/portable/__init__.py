"""Portable clauses: what kube-scheduler, cluster-autoscaler and Karpenter can be told of a policy.

A clause becomes a part of the pod's spec when the pod is created. The part rejects no node that the
clause does not reject: Placet goes on to decide, and the others see most of it.

Belongs here: selectors, what becomes of each clause, and the form of one pod. Must not: decisions
about nodes, requests, and files.
"""
