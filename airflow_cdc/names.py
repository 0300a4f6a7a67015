"""Names that the DAG files, the commands, the links and the page agree on, and how a table's name is written in others."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.pipeline import Corrected

if TYPE_CHECKING:
    from airflow_cdc.core.pipeline import Pipeline

RECOVERY_DAG_ID = "cdc_recovery"
REPAIR_DAG_ID = "cdc_repair"
ABANDON_DAG_ID = "cdc_abandon"
# of pipelines without DAGs of their own
SHARED_DAG_IDS = frozenset({RECOVERY_DAG_ID, REPAIR_DAG_ID, ABANDON_DAG_ID})
ASK_AGAIN_TASK = "ask_again"
# the XCom in which a task that failed or skipped itself leaves the reason, for whoever waits for its run
REASON = "reason"
PAGE_PREFIX = "/cdc"
REPORT_PAGE = "report.html"
# the approval in a report if nobody was asked
NOT_NEEDED = "not needed"
IN_ADVANCE = "in advance, by who triggered the run"

# A file name may have 255 bytes, of which Great Expectations' pages spend two names. An Asset's URI may have 1,500 characters.
_LONGEST_FILE = 100
_LONGEST_URI = 1_000


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


def has_nights(pipeline: Pipeline) -> bool:
    """Whether there is that DAG: for tables that we write, or that others write from the topics."""
    return pipeline.is_applied or pipeline.corrected is Corrected.THROUGH_TOPICS


def uri_part(name: str) -> str:
    """A name as a part of a URI, or as a metric's tag: "a/b" becomes "a%2Fb". Different names stay different."""
    return _cut(quote(name, safe=""), name, _LONGEST_URI)


def file_part(name: str) -> str:
    """A name as a part of a file name: "a/b" becomes "a~2Fb". Different names stay different.

    Not with %: a browser decodes it in a link, and asks for a file that is not there.
    """
    return _cut(quote(name, safe="").replace("~", "%7E").replace("%", "~"), name, _LONGEST_FILE)


def _cut(text: str, name: str, limit: int) -> str:
    """A text that is too long keeps its beginning and gets a hash of the name, after a + that no other text has."""
    return text if len(text) <= limit else f"{text[: limit - 17]}+{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def split_name(name: str) -> tuple[str, str]:
    """("schema", "table") of "schema.table"; the table's name may hold further dots. Raises SourceError."""
    schema, _, table = name.partition(".")
    if not schema or not table:
        raise SourceError(f"{name!r} is not a table name", todo="Write schema.table.")
    return schema, table
