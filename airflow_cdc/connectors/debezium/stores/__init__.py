"""Where Debezium's offset is kept, one module per place."""
