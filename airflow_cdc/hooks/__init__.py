"""Airflow connections turned into the endpoints that the clients of `systems` take."""
