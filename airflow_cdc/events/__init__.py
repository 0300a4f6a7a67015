"""Change events as values: bytes → Connect values (wire/) → changes (a connector's frame) → logical values (its table of values)."""
