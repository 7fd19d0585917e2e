"""Tests of the page in a browser: every view, in light and dark, on a screen and on a phone."""
