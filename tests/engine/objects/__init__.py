"""Tests of `engine.objects`: objects from JSON, and the requests and limits of pods."""
