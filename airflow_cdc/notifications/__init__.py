"""Telling people of an outage."""
