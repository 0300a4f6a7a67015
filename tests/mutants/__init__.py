"""Changes of the code that a test should notice (`make mutants`)."""
