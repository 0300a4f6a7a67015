"""Debezium's connectors."""
