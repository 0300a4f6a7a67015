"""How the values of each source stand in a Debezium event."""
