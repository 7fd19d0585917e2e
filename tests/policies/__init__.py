"""Tests of `policies`: files in, checked policies and diagnostics out."""
