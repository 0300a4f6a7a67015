"""The sinks that rows are written to, one folder per system."""
