"""The state that runs of a pipeline share: epoch, lease, open recovery, ledger and audit."""
