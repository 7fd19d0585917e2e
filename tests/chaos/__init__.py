"""Chaos: attacks and faults against a real control plane. `make e2e` plays two short schedules."""
