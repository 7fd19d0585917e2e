"""Tests of `cli.serving`: what a server does besides serving, without a server."""
