"""The cases of the CEL conformance suite, run against the evaluator and the compiler."""
