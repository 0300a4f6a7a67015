"""Airflow connections turned into the endpoints that the systems' clients take."""
