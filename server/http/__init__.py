"""HTTP: sockets, connections, TLS, bodies, health, and what surrounds every call.

Belongs here: what holds for a request whatever it asks for. Must not: the verbs (`server.verbs`),
the view (`server.view`), the parts of a running server (`server.runtime`).
"""
