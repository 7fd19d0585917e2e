"""A simulated cluster: all of Placet in one process, with a clock that skips all waiting."""
