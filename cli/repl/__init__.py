"""`placet repl`: a conversation about a cluster and its policies, line by line.

Belongs here: what was typed, what a line means, the commands, completion, and the terminal. All but
`terminal` is text in and text out.

Must not: another way to evaluate or decide, which is the engine's; what a table of an explanation
looks like, which is `cli`'s for every command.
"""
