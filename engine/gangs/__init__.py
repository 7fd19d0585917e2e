"""Gangs: groups of pods that are placed together or not at all.

What belongs here: who is in a gang, where its members would go, and which gangs gather. What waits
at bind is told by callbacks: nothing here knows of the event loop or of the API server.
"""
