"""The DAG collection; see `airflow cdc init` for how Airflow finds it."""
