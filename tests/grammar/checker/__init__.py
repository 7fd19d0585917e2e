"""What the checker says of types, calls and parameters."""
