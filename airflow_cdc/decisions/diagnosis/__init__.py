"""From what was read to a problem, and from a problem to a plan."""
