"""Where a batch of changes begins and whether it may."""
