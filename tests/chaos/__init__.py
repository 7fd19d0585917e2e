"""Chaos: attacks and faults against a real control plane, for minutes; not part of CI."""
