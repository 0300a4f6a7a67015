"""From an observation to a problem, and from the problem to a plan."""
