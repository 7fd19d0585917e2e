"""Tests: a folder a package, and folders for what concerns all of them."""
