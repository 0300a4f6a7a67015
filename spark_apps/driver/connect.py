"""What is of Spark Connect: a driver's session on a server, without Java on this machine (docs/adr/0033-spark-connect.md).

Nothing here is imported by a driver with a Spark of its own.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.driver.shipped import NAME, write_archive
from airflow_cdc.spark_apps.driver.task import before_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.client.retries import RetryPolicy

log = logging.getLogger("airflow_cdc.driver")

# pyspark and the server read the token there
TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the variable's name
# the release that the applications were run on
RELEASE: Final = "4.1."
# With these waits a server that is gone is given up after about a minute; pyspark's own are ten, without a word.
TRIES: Final = 8
LONGEST_WAIT_MS: Final = 15_000
# the server's own, which no session changes
STATIC: Final = frozenset({"spark.sql.extensions"})
# numbers enough for each of a cluster's tasks to get some
_NUMBERS: Final = 10_000

# sessions that have to be closed by hand before the process may end
_siblings: list[SparkSession] = []
_parallelism: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Remote:
    """A Spark Connect server: its URL, which has no token in it, and the token; "" for a server that asks for none."""

    url: str
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        plain = "use_ssl=true" not in self.url.lower()
        if self.token and plain and urlsplit(self.url).hostname != "localhost":
            raise ConfigError(
                "a token is sent without TLS to this machine only, by the name localhost",
                where=self.url,
                todo="Set use_ssl and put a TLS proxy before the server, or take the token away.",
            )

    @classmethod
    def from_json(cls, value: Mapping[str, str]) -> Remote:
        return cls(**value)

    def to_json(self) -> dict[str, str]:
        return asdict(self)


def session_on(remote: Remote, app_name: str, conf: Mapping[str, str]) -> SparkSession:
    """A session on that server with these settings, the session functions, and this package for its executors.

    Raises ConfigError for a server of another release, or in another time zone than UTC.
    """
    from pyspark.sql import SparkSession

    if remote.token:
        os.environ[TOKEN] = remote.token  # of this process alone, after its start: ps and /proc show neither
    builder: Any = SparkSession.builder
    builder = builder.appName(app_name).remote(remote.url)
    for key, value in conf.items():
        if key not in STATIC:
            builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    _patient(session)
    before_end(lambda: interrupt(session))
    check(session, remote, conf)
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / NAME
        write_archive(archive)
        session.addArtifacts(str(archive), pyfile=True)
    register_functions(session)  # a sibling has the functions that were there when it was made
    return session


def check(session: SparkSession, remote: Remote, conf: Mapping[str, str]) -> None:
    """Raise ConfigError for a server on which these settings would mean something else, or nothing."""
    zone = session.sql("SELECT java_method('java.time.ZoneId', 'systemDefault')").collect()[0][0]
    if not session.version.startswith(RELEASE):
        what = f"the Spark Connect server has Spark {session.version}"
        raise ConfigError(what, where=remote.url, todo=f"Start it with Spark {RELEASE}x, as beside Airflow.")
    if zone not in {"UTC", "Etc/UTC", "Z", "GMT"}:
        what = f"the Spark Connect server's Java is in the time zone {zone}, and would shift times"
        raise ConfigError(what, where=remote.url, todo="Start it with -Duser.timezone=UTC in its Java options.")
    for key in STATIC & conf.keys():
        own = str(session.conf.get(key, "") or "")
        if lacking := sorted(set(conf[key].split(",")) - set(own.split(","))):
            what = f"the Spark Connect server has no {', '.join(lacking)} in {key}"
            raise ConfigError(what, where=remote.url, todo=f"Start it with {key}={conf[key]}: no client can set it.")


def sibling_of(session: SparkSession) -> SparkSession:
    """A separate session, with the settings, functions and views that this one has now."""
    clone: SparkSession = session.cloneSession()
    _siblings.append(clone)
    _patient(clone)
    return clone


def kept(frame: DataFrame, *, eager: bool) -> DataFrame:
    """A local checkpoint, which belongs to the frame's session: pyspark gives it to the thread's own."""
    checkpoint: Any = frame.localCheckpoint(eager=eager)
    checkpoint._session = checkpoint._plan._spark_session = frame.sparkSession  # noqa: SLF001 - pyspark 4.1.3 has no other way
    return cast("DataFrame", checkpoint)


def parallelism(session: SparkSession) -> int:
    """How many tasks the server runs at once, by its own division of a few numbers; asked once."""
    from pyspark.sql import functions as fn

    client: Any = session.client
    name = str(client._session_id)  # noqa: SLF001
    if name not in _parallelism:
        _parallelism[name] = session.range(_NUMBERS).select(fn.spark_partition_id()).distinct().count()
    return _parallelism[name]


def interrupt(session: SparkSession) -> None:
    """End what runs on the server, and give the sessions back, without waiting for a server that is gone."""
    for one in (*_siblings, session):
        one.client.set_retry_policies([])
        with suppress(Exception):
            one.interruptAll()
        with suppress(Exception):
            one.client.release_session()


def stop(session: SparkSession) -> None:
    """Stop it, and all its siblings: one that is left open keeps the interpreter from ending. A server that is gone is not waited for."""
    session.client.set_retry_policies([])
    while _siblings:
        clone = _siblings.pop()
        clone.client.set_retry_policies([])
        with suppress(Exception):
            clone.client.release_session()
        with suppress(Exception):
            clone.client.close()
    session.stop()


def _patient(session: SparkSession) -> None:
    client: Any = session.client
    client.set_retry_policies([_policy()])


def _policy() -> RetryPolicy:
    """As pyspark's own, but it gives up after a minute, and speaks."""
    import grpc  # type: ignore[import-untyped]
    from pyspark.sql.connect.client.retries import DefaultPolicy

    class Spoken(DefaultPolicy):  # type: ignore[misc]
        def can_retry(self, error: BaseException) -> bool:
            again: bool = super().can_retry(error)
            if again and isinstance(error, grpc.Call) and error.code() == grpc.StatusCode.UNAVAILABLE:
                log.warning("the Spark Connect server does not answer, and is asked again: %s", error.details())
            return again

    return Spoken(max_retries=TRIES, max_backoff=LONGEST_WAIT_MS)
