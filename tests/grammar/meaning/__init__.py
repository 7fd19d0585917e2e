"""What names of the schema stand for."""
