"""The commands `airflow cdc …`; nothing heavy is imported until one runs."""
