"""Tests of `placet conformance`."""
