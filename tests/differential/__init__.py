"""The parts of a comparison with kube-scheduler's plugins: random worlds, and policies of the docs.

Belongs here: what generates worlds, what reads docs/coming-from.md, and the process that runs the
plugins. The comparison is tests/differential/test_differential.py.
"""
