"""Tests of `engine.cards`: what is left of cards, and how fragmented it is."""
