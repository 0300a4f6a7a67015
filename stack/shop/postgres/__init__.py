"""The shop on PostgreSQL: the same tables, the same writer, the same gap, in its own words."""
