"""A batch of changes, applied to a stage."""
