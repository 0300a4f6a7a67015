"""What pipelines.yaml says of a Flink job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import ConnectorSpec
from airflow_cdc.core.settings import CONNECTION, Form, key, read_text, settings

E = TypeVar("E")


def _property(written: object) -> str:
    text = read_text(written)
    name, equals, _ = text.partition("=")
    if not name.strip() or not equals:
        raise ConfigError("is no `name=value`", todo="Write e.g. execution.checkpointing.interval=10s.")
    return text


PROPERTY: Final = Form("name=value", _property)


@settings
class FlinkSettings(ConnectorSpec):
    """A job of Flink CDC that writes the sink itself. `name` is the job's name (`pipeline.name`)."""

    conn_id: str = key("Airflow connection (`flink`): the REST interface of the JobManager.", form=CONNECTION)
    plan: str = key(
        "The job's compiled plan (`COMPILE PLAN`): a file that the Airflow worker reads and writes and the SQL gateway"
        " reads, under the same path. Without it the job is diagnosed and stopped, and neither started nor moved from here.",
        default="",
    )
    savepoints: str = key(
        "Where savepoints are written when the job is stopped, as a URI; without it the cluster's own place.",
        default="",
    )
    session: tuple[str, ...] = key(
        "Settings of the session in which the job is started, such as `execution.checkpointing.interval=10s`: a compiled"
        " plan does not hold them.",
        form=PROPERTY,
        default=(),
    )
    reads: str = key(
        "Of a job with several sources of MySQL's log: the one that this pipeline is about, as `database-name.table-name` of its"
        " options. The others are left as they are.",
        default="",
    )

    def at(self, endpoint: E) -> E:
        """The connection's endpoint, with this job's plan and places."""
        own: Any = endpoint
        return cast(
            "E", replace(own, plan=self.plan, savepoints=self.savepoints, reads=self.reads, session=self.session)
        )
