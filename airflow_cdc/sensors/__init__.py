"""Sensors that wait for a position on the source, deferrable or not."""
