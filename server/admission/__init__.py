"""Admission: webhooks about policies and pods, and the process that checks policies for them.

Belongs here: reviews of the API server and their answers. Must not: the rules of a policy
(`policies.admission`), deadlines of verbs (`server.verbs`).
"""
