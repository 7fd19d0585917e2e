"""Tests of `cli.explaining`: an explanation is what the engine decides."""
