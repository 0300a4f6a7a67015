"""Spark applications: DataFrame in, DataFrame out; they move data and make no decisions."""
