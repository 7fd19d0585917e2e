"""`placet repl`: an interactive session about a cluster and its policies.

Belongs here: the state of a session, what an input line means, the commands about the session,
completion, and the terminal.

Must not: another way to evaluate, to decide or to explain: the session asks commands of
`cli.commands` about its world, and values are those of `cli.expressions`.
"""
