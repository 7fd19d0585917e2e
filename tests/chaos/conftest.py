"""Fixtures: those of the end-to-end tests."""

from tests.e2e.conftest import cluster, plane, programs, served

__all__ = ["cluster", "plane", "programs", "served"]
