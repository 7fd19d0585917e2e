"""Texts and tables of messages."""
