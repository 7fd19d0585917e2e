"""Tests of `engine.cluster`: against a small API server over real HTTP."""
