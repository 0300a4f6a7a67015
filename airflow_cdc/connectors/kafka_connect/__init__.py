"""The REST interface of a Kafka Connect cluster."""
