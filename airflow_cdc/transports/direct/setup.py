"""The questions of `airflow cdc init` for a pipeline without a transport: there are none."""

from __future__ import annotations

from airflow_cdc.core.setup import Setup

SETUP = Setup()
