"""The ten steps of a recovery as plain functions over the clients of one pipeline; nothing here imports Airflow."""
