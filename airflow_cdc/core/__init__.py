"""Values and decisions of change-data-capture recovery: standard library only, no I/O."""
