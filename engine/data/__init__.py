"""Rows of tables of data, as they are read from texts, answers and objects of sources.

It must not ask the sources: that is in `engine.cluster`. Nothing here waits.
"""
