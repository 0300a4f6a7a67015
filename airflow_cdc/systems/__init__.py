"""Clients of the outside systems, one module per system. No Airflow import here or below."""
