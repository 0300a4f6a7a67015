"""Apache Airflow provider for change-data-capture pipelines: diagnose, recover, prove."""

__version__ = "0.1.0"
