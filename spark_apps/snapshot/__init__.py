"""Reading a table of the source into a stage."""
