"""What the doctor asks a Spark Connect server, in a process of its own: a driver's settings on stdin, answers as JSON on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from airflow_cdc.core.errors import CdcError, ConfigError
from airflow_cdc.core.secrets import mask_text
from airflow_cdc.spark_apps.driver.app import read_run, root_cause
from airflow_cdc.spark_apps.driver.session import parallelism, remote_session, stop

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# by Spark's own class loader, which knows the jars that were given to it
_FINDS = "SELECT try_reflect('org.apache.spark.util.Utils', 'classForName', '{}', false, false)"


@dataclass(frozen=True, slots=True)
class Answers:
    """Spark's release, how many tasks run at once, the class files that it does not find, and its executors' Python."""

    spark: str
    tasks: int
    missing: Sequence[str]
    python: str


def main() -> int:
    """Print the answers, or the error if the server cannot be used at all."""
    settings = json.load(sys.stdin)
    try:
        session = remote_session("cdc doctor", read_run(settings).clients.sink, settings["connect"])
        try:
            print(json.dumps(asdict(answers(session, settings["jars"]))), flush=True)
        finally:
            stop(session)
    except CdcError as error:
        return _told(error)
    except Exception as error:
        what = mask_text(root_cause(str(error)))
        return _told(ConfigError(what, where=str(settings["connect"]["url"])))
    return 0


def _told(error: CdcError) -> int:
    print(json.dumps({"error": error.to_json()}), flush=True)
    return 1


def answers(session: SparkSession, entries: Sequence[str]) -> Answers:
    """`entries`: the class files that have to be there. Raises what Spark raises if executors lack what they need."""
    session.sql("SELECT cdc_json_canonical('{}')").collect()
    python = session.range(1).mapInArrow(_versions, "versions string").collect()[0][0]
    return Answers(session.version, parallelism(session), _missing(session, entries), str(python))


def _missing(session: SparkSession, entries: Sequence[str]) -> list[str]:
    names = {entry: entry.removesuffix(".class").replace("/", ".") for entry in entries}
    return [entry for entry, name in names.items() if session.sql(_FINDS.format(name)).collect()[0][0] is None]


def _versions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: it has this package from here, and what decodes events needs of others."""
    import importlib
    import platform

    import pyarrow as pa

    importlib.import_module("airflow_cdc.events.decoder")
    for _ in batches:
        text = f"Python {platform.python_version()}, pyarrow {pa.__version__}"
        yield pa.RecordBatch.from_arrays([pa.array([text])], ["versions"])


if __name__ == "__main__":
    sys.exit(main())
