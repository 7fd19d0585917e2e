"""Tests of `server.verbs`: the four calls of kube-scheduler."""
