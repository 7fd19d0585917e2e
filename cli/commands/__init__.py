"""The commands, one file each.

Belongs here: the names of all, and the arguments, the work and the output of each one. A command's
`configure` adds the arguments to a parser; its `run` returns an exit code. Must not: anything that
two commands need.
"""

# Each command is a module of `cli.commands`, and only the requested one is imported: `check` starts
# in a fraction of the time that the server's libraries take.

# What most people use, in the order in which they come to it.
FIRST = {
    "how": "show a tested policy for what is wished, found by words",
    "new": "write a policy, its tests and a small cluster, from a recipe",
    "check": "report errors in policy files",
    "test": "run the tests of policy files",
    "explain": "show which policies apply to a pod, and why each node passes or fails",
    "simulate": "show where pods would go, and what other policies would change",
    "serve": "run the extender that kube-scheduler calls",
    "doctor": "report problems in a kube-scheduler configuration",
    "more": "list the other commands, by what they answer",
}
# The others, by what they are about.
MORE = {
    "of policies": {
        "compare": "show which policies an edit makes stricter or laxer, each with a test",
        "fmt": "format policy files",
        "eval": "show the value of an expression for a pod and a node",
        "repl": "try expressions and clauses on a cluster interactively",
        "schema": "show what policies can read",
        "compile": "print what portable policies say about a pod in Kubernetes' own words",
        "lsp": "answer editors: diagnostics, completion, hover, format and fixes of policy files",
    },
    "of a running Placet": {
        "status": "show what the running Placet is and knows",
        "decisions": "show what the running Placet decided about pods",
        "audit": "show which pods policies in audit mode would have kept pending",
        "drift": "show which pods break rules where they are, and what a repair would do",
        "ui": "show in the browser what the running Placet decided, and why",
    },
    "of an installation": {
        "crds": "print the definitions of PlacementPolicy and ClusterPlacementPolicy",
        "manifests": "print the manifests that install Placet with a second kube-scheduler",
        "scheduler-config": "write a kube-scheduler configuration that calls Placet",
        "conformance": "hold any extender to what kube-scheduler expects of it",
    },
}
COMMANDS = {**FIRST, **{name: text for of in MORE.values() for name, text in of.items()}}
