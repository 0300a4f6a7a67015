"""What `airflow cdc init` asks where there is no sink: nothing."""

from __future__ import annotations

from airflow_cdc.core.setup import Setup

SETUP = Setup()
