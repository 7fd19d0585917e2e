"""Tests of `cli.explanation`: an explanation is what the engine decides."""
