"""Text to tree, and what is said of texts that are not one."""
