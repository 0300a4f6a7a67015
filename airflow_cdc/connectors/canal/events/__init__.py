"""How Canal writes changes: flat JSON, packets of protobuf, and MySQL's values in both."""
