"""Tests of `grammar`: texts in, trees, values and diagnostics out."""
