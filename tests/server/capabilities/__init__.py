"""Tests of `server.runtime`: what a server does besides serving, without a server."""
