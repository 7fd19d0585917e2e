"""Value types and functions, asked in the language itself."""
