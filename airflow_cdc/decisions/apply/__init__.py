"""Where a batch of changes starts, and whether it may start."""
