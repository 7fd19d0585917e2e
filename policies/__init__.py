"""Policy documents: loading, validation, and PlacementPolicy objects.

Belongs here: finding and reading files, checking them, keeping the last valid version; the structs
of PlacementPolicy objects, and their translation to policies.
Must not: decisions (`engine`), the language (`grammar`), output (`cli`).
"""
