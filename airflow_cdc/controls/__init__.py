"""Control stores: where a pipeline keeps its own state (lease, open recovery, ledger)."""
