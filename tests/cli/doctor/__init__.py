"""Tests of `cli.doctor`: checks of configurations, and generated configurations."""
