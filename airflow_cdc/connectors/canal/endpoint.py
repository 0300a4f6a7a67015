"""Where a Canal server's files, cursors and commands are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Self

from airflow_cdc.core.endpoint import CallLimits

FILE: Final = "file"
ZOOKEEPER: Final = "zookeeper"


@dataclass(frozen=True, slots=True)
class CanalEndpoint:
    """A Canal server, as seen from where this runs.

    Attributes:
        host: ZooKeeper's servers, "zk1:2181,zk2:2181"; where the cursor is in a file, the machine, for messages.
        user, password: of ZooKeeper (digest); "": it asks for none.
        cursor: "file" or "zookeeper".
        destination: the one that this pipeline reads.
        conf: the folder with canal.properties and DESTINATION/instance.properties.
        log: Canal's log of the destination; "": it cannot be read from here.
        start, stop, status: commands, as lists of words.
        environment: names of variables that the commands get beside the usual ones, or NAME=value.
        time_zone: of its JVM; "": not known.
        timeout: how long ZooKeeper or `status` may take to answer, in seconds.
    """

    host: str
    user: str = ""
    password: str = field(default="", repr=False)
    destination: str = ""
    cursor: str = FILE
    conf: str = ""
    log: str = ""
    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    timeout: float = 30.0
    time_zone: str = ""

    def __post_init__(self) -> None:
        for name in ("start", "stop", "status", "environment"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def names_zookeeper(self) -> bool:
        """Whether `host` names servers to ask; a machine has no port."""
        return ":" in self.host

    @property
    def where(self) -> str:
        """How messages name the server."""
        return f"Canal at {self.host}" if self.host else f"Canal of {self.conf}"

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return replace(self, timeout=min(self.timeout, limits.answer))
