"""What can be wrong with a configuration, a function each.

Belongs here: functions from a configuration, or its entry for Placet, to findings. Must not:
reading files, printing, and anything that asks a cluster.
"""
