"""Names that the DAG files, the commands, the links and the page agree on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_cdc.core.pipeline import Pipeline

RECOVERY_DAG_ID = "cdc_recovery"
REPAIR_DAG_ID = "cdc_repair"
ABANDON_DAG_ID = "cdc_abandon"
# of pipelines without DAGs of their own
SHARED_DAG_IDS = frozenset({RECOVERY_DAG_ID, REPAIR_DAG_ID, ABANDON_DAG_ID})
ASK_AGAIN_TASK = "ask_again"
PAGE_PREFIX = "/cdc"
REPORT_PAGE = "report.html"
# the approval in a report if nobody was asked
NOT_NEEDED = "not needed"
IN_ADVANCE = "in advance, by who triggered the run"


def dag_id_for(pipeline: Pipeline, dag_id: str) -> str:
    """The DAG that does for `pipeline` what the shared DAG `dag_id` does for others."""
    return f"{dag_id}__{pipeline.name}" if pipeline.airflow.own_dags else dag_id


def apply_dag_id(name: str) -> str:
    """The id of the DAG that applies the changes of pipeline `name`."""
    return f"cdc_apply__{name}"


def watch_dag_id(name: str) -> str:
    """The id of the DAG that watches pipeline `name`."""
    return f"cdc_watch__{name}"


def main_dag_id(name: str, *, applied: bool) -> str:
    """The id of the DAG that a user must be able to read to see the page of pipeline `name`."""
    return apply_dag_id(name) if applied else watch_dag_id(name)


def maintain_dag_id(name: str) -> str:
    """The id of the DAG that maintains the sink tables of pipeline `name`."""
    return f"cdc_maintain__{name}"


def nightly_dag_id(name: str) -> str:
    """The id of the DAG that compares pipeline `name` every night."""
    return f"cdc_nightly_consistency__{name}"
