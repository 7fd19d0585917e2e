"""Tests of `cli.scheduling`: checks of configurations, and generated configurations."""
