"""What is known of Flink CDC before a client is opened: its settings in pipelines.yaml, init's questions, the form of its connection."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import ConnectorSpec, E
from airflow_cdc.core.settings import CONNECTION, Form, key, read_text, settings
from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup, form_field

if TYPE_CHECKING:
    from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint


def _property(value: object) -> str:
    text = read_text(value)
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
        own = cast("FlinkEndpoint", endpoint)
        return cast(
            "E", replace(own, plan=self.plan, savepoints=self.savepoints, reads=self.reads, session=self.session)
        )


def keys(name: str, answers: Answers) -> Sequence[Key]:
    """The keys below `connector`."""
    own = (("plan", "the compiled plan; worker and SQL gateway see the same file"), ("savepoints", "a URI"))
    others = tuple(Key(key, answers[f"flink_{key}"], why) for key, why in own if answers[f"flink_{key}"])
    return (
        Key("conn_id", f"{name}_flink", "the JobManager's REST interface"),
        Key("name", answers["flink_job"], "the job's name"),
        *others,
    )


def connections(name: str, answers: Answers) -> Sequence[NewConnection]:
    """The connection to the JobManager."""
    host, _, port = answers["flink_jobmanager"].partition(":")
    extra = json.dumps({"gateway": answers["flink_gateway"]}) if answers["flink_gateway"] else ""
    return (NewConnection(f"{name}_flink", "flink", host, int(port) if port.isdigit() else None, extra=extra),)


SETUP = Setup(
    (
        Question("flink_job", "The Flink job's name", as_pipeline=True),
        Question("flink_jobmanager", "Flink's JobManager, host:port of its REST interface", "localhost:8081"),
        Question("flink_gateway", "URL of Flink's SQL gateway, to start the job", needed=False),
        Question("flink_plan", "The job's compiled plan, a path that worker and gateway share", needed=False),
        Question("flink_savepoints", "Where savepoints are written, as a URI", needed=False),
    ),
    keys,
    connections,
)


FORM: Final[dict[str, object]] = {
    "connection-type": "flink",
    "hook-class-name": "airflow_cdc.hooks.flink.FlinkHook",
    "hook-name": "Flink",
    "ui-field-behaviour": {
        "hidden-fields": [],
        "relabeling": {"host": "JobManager", "schema": "http or https", "login": "User", "port": "REST port"},
        "placeholders": {"host": "jobmanager.example", "port": "8081", "schema": "http"},
    },
    "conn-fields": {
        "gateway": form_field("SQL gateway", "http://gateway.example:8083; without it no job is started from here"),
        "verify": form_field("Check certificates", "true or false"),
    },
}
