"""Comparisons with Kubernetes' own packages: plugins in random worlds, CEL with random expressions.

Belongs here: what generates worlds and expressions, what reads docs/coming-from.md and
docs/kubernetes-cel.md, and the processes that run the packages. The comparisons are
test_differential.py and test_kubernetes_cel.py.
"""
