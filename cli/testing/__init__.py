"""Running the `test` blocks of policy files: finding them, their clusters, answers and coverage.

Decisions are the engine's, the same code that serves. Must not: decide anything itself.
"""
