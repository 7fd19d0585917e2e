"""Gangs: groups of pods that are placed together or not at all.

What belongs here: who is in a gang, where its members would go, and which gangs gather. What must
not be here: the event loop and the API server. What waits at bind is told by callbacks.
"""
