"""Tests of `server`: over HTTP on loopback, and of its formats without HTTP."""
