"""`cdc_watch__<pipeline>`: watches a pipeline from the triggerer."""

from __future__ import annotations

from airflow_cdc.dags._watch import watch_dags

globals().update(watch_dags())
