"""How Debezium writes changes: its envelope, its flattened form, and the values of each kind of source."""
