"""The tests of what installs Placet in a cluster."""
