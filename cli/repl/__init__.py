"""`placet repl`: an interactive session about a cluster and its policies.

Belongs here: the state of a session, what an input line means, the commands, completion, and the
terminal. Everything but `terminal` takes text and returns text.

Must not: another way to evaluate or decide, which is the engine's; the layout of explanations,
which all commands share in `cli.explanation`.
"""
