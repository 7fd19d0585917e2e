"""Policy documents: where they come from, whether they hold, and which version of them is in force.

Belongs here: finding and reading files, checking what they say, keeping the last good version; the
shape of PlacementPolicy objects, and the policy that each is.
Must not: what a policy decides (`engine`), how its text is read (`grammar`), printing (`cli`).
"""
