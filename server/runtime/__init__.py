"""Runtime: a running server, with its cluster, policies and reports.

Belongs here: what `placet serve` is made of besides the HTTP application. Must not: flags and
terminals (`cli`), the wire formats of the verbs (`server.verbs`), decisions (`engine`).
"""
