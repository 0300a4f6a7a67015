"""What is accepted of public connector configurations."""
