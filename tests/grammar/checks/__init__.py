"""Tests of `grammar.checks`: a table per check of texts that it reports and near misses."""
