"""Gangs: groups of pods that are placed together or not at all.

What belongs here: who is in a gang, where its members would go, and which gangs gather. The event
loop and the API server must not be here: what waits at bind is told by callbacks.
"""
