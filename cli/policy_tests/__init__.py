"""`placet test`: runs the `test` blocks of policy files.

Belongs here: finding tests, setting up their clusters, comparing answers with expectations, and
reports.

Must not: decide anything; the engine that serves decides here too.
"""
