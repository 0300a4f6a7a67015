"""`make airflow-matrix`: the wheel in an environment of each supported Airflow."""
