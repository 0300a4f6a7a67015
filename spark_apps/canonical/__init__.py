"""The canonical text of rows (decisions/compare/canonical.py), in Spark SQL and over Arrow's columns."""
