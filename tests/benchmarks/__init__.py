"""Measurements, run by `make bench` alone; a target that is missed fails nothing."""
