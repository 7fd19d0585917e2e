"""What texts, answers and objects of sources say, as the rows of tables of data.

It must not ask the sources: that is in `engine.cluster`. Nothing here waits.
"""
