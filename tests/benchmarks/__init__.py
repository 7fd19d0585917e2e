"""Measurements, run by `make bench` alone; they print figures and judge none."""
