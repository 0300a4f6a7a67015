"""What Debezium stores as its offset, one module per source."""
