"""What is known of Hudi before a client is opened: its settings in pipelines.yaml, init's questions, Spark's jars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import E, SinkSpec
from airflow_cdc.core.settings import Form, key, settings
from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup
from airflow_cdc.core.spark_jars import Need, Of

if TYPE_CHECKING:
    from airflow_cdc.sinks.hudi.endpoint import HudiEndpoint

# Flink's own
DEFAULT_BUCKETS: Final = 4


def _some(written: object) -> int:
    if isinstance(written, bool) or not isinstance(written, int) or written < 1:
        raise ConfigError(
            "must be a whole number above 0", todo="Write what the job's table has for hoodie.bucket.index.num.buckets."
        )
    return written


BUCKETS: Final = Form("number above 0", _some)


@settings
class HudiSettings(SinkSpec):
    """A folder of Hudi tables: `<path>/<namespace>/<table>`."""

    writer: Literal["cdc_apply", "connector"] = key(
        "Who writes the sink tables, and nothing else does: the DAG `cdc_apply__<pipeline>`, or the connector itself (with"
        " `transport.kind` direct).",
        default="cdc_apply",
        kw_only=True,
    )
    path: str = key("Folder of the tables: an absolute path that Airflow's workers and Spark share.")
    table_type: Literal["copy-on-write", "merge-on-read"] = key(
        "How new tables are written. A table that is there keeps its type.", default="copy-on-write"
    )
    buckets: int = key(
        "With `writer: connector`: the number of buckets of the job's tables, `hoodie.bucket.index.num.buckets`.",
        form=BUCKETS,
        default=DEFAULT_BUCKETS,
    )

    @property
    def where(self) -> str:
        """How messages name the place of the tables."""
        return f"{plain_path(self.path)}/{self.namespace}"

    def at(self, endpoint: E) -> E:
        """The folder that this pipeline names."""
        own, buckets = cast("HudiEndpoint", endpoint), self.buckets if self.writer == "connector" else 0
        return cast("E", own.of(self.path, self.table_type, buckets))


def plain_path(path: str) -> str:
    """A folder as it is named, without a scheme and what names it twice."""
    plain = path.removeprefix("file://")
    return str(Path(plain)) if plain.startswith("/") else plain


def keys(_name: str, answers: Answers) -> Sequence[Key]:
    """The keys under `sink`."""
    return (
        Key("path", answers["hudi_path"], "the folder of the tables, shared by Airflow's workers and Spark"),
        Key("namespace", answers["hudi_namespace"], "the folder's folder for this pipeline"),
        # the only one that the transport allows
        Key("writer", "connector" if answers["transport_kind"] == "direct" else "cdc_apply", "who writes the tables"),
    )


def connections(_name: str, _answers: Answers) -> Sequence[NewConnection]:
    """None: a folder takes no credentials."""
    return ()


SETUP = Setup(
    (
        Question("hudi_path", "Folder of the Hudi tables, an absolute path", example="/lake/hudi"),
        Question("hudi_namespace", "Folder in it for this pipeline (default: the pipeline's name)", as_pipeline=True),
    ),
    keys,
    connections,
)


HUDI = Need(
    "hudi-spark",
    "reads and writes the sink tables",
    "org.apache.hudi:hudi-spark{minor}-bundle_{scala}:1.2.0",
    "org/apache/hudi/DefaultSource.class",
    Of.BUNDLE,
)
JARS = (HUDI,)
