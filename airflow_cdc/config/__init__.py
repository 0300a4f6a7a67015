"""The configuration: pipelines.yaml and [cdc] in airflow.cfg."""
