"""Sockets, connections, TLS, bodies and health, over real connections."""
