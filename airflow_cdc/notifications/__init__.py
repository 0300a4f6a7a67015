"""Notifications to people about an outage."""
