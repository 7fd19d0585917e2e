"""Tests of `server`: a real server on loopback, and bytes over a socket."""
