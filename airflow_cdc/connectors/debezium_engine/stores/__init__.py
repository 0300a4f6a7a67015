"""Where Debezium's engine keeps its offsets, one module per place."""
