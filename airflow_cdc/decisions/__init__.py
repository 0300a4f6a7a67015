"""Decisions: pure functions of values, without I/O. They use the standard library only and name no system."""
