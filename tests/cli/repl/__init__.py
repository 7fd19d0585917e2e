"""Tests of the REPL: lines and answers, completion, a pipe, and a real pseudo-terminal."""
