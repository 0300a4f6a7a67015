"""Spark's side of each system: how its rows and records are read."""
