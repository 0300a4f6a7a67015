"""Spark applications: DataFrame in, DataFrame out; they move data and decide nothing."""
