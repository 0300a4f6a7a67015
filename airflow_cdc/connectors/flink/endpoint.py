"""Where a Flink cluster, and the plan of one job, are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from airflow_cdc.core.endpoint import Address, CallLimits


@dataclass(frozen=True, slots=True)
class FlinkEndpoint:
    """A Flink cluster, and one job in it.

    Attributes:
        url: of the JobManager's REST interface. A login in it, or in `gateway`, is moved into `user` and `password`.
        gateway: of the SQL gateway; "": there is none, and no job is started from here.
        user, password: basic authentication of a proxy before both; "": none.
        verify: False: certificates are not checked.
        plan: the compiled plan's path; "": not known.
        savepoints: where savepoints are written; "": the cluster's own place.
        reads: of several sources of the job, the one that is meant: database-name.table-name; "": it has just one.
        session: name=value, of the session in which the job is started.
        timeout: how long a request may take, in seconds.
    """

    url: str
    gateway: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    verify: bool = True
    plan: str = ""
    savepoints: str = ""
    reads: str = ""
    session: tuple[str, ...] = ()
    timeout: float = 30.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "session", tuple(self.session))
        cluster, gateway = Address.of(self.url, "Flink"), Address.of(self.gateway, "Flink's SQL gateway")
        object.__setattr__(self, "user", self.user or cluster.user or gateway.user)
        object.__setattr__(self, "password", self.password or cluster.password or gateway.password)
        for name, address in (("url", cluster), ("gateway", gateway)):
            object.__setattr__(self, name, address.url)

    @property
    def where(self) -> str:
        """How messages name the cluster."""
        return f"Flink {self.url}"

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return replace(self, timeout=min(self.timeout, limits.answer))
