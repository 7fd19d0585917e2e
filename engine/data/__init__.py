"""Tables of the world beyond pods and nodes: what they are, and how texts become their rows.

What asks sources for them is in `engine.cluster`. Nothing here waits.
"""
