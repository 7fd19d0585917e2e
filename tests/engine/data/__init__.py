"""Tests of the rows that texts, answers and objects of sources have."""
