"""Webhooks about policies and pods, and the process that checks policies."""
