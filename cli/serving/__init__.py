"""What `placet serve` is made of besides the server: files that are watched, logs, what it prints.

Belongs here: parts that only a running server needs, and that are no part of serving requests.
Must not: HTTP (`server`), decisions (`engine`).
"""
