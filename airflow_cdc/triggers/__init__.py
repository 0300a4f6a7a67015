"""Triggers: declarations over one base that owns serialization, the poll loop and the event's shape."""
