"""Tests of `grammar.rules`: a table per rule of texts that it reports and near misses."""
