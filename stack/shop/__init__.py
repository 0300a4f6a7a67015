"""The shop: a schema of every kind of column and key, its connector, its writer, a gap in its log, and an independent check."""
