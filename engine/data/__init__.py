"""What texts, answers and objects of sources say, as the rows of tables of data.

What asks the sources is in `engine.cluster`. Nothing here waits.
"""
