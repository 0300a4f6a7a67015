"""Where a pipeline's own state can be kept: lease, open recovery, ledger."""
