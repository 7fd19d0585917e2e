"""Capabilities: what a server has besides the verbs, each in one file, and all of them in a table.

Belongs here: the parts of a capability that watch, write, count or answer in a running server. It
must not contain state and arithmetic of decisions (`engine`), nor what serves each capability alike
(`server.runtime`).
"""
