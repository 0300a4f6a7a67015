"""Where an OpenSearch cluster is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

from airflow_cdc.core.endpoint import Address, CallLimits
from airflow_cdc.core.tls import TlsSettings


@dataclass(frozen=True, slots=True)
class OpenSearchEndpoint(TlsSettings):
    """An OpenSearch cluster.

    Attributes:
        url: scheme, host and port of one node, or of a load balancer before the nodes. A login in it is moved into
            `user` and `password`.
        user, password: basic authentication; a password alone is a bearer token.
        shards, replicas: of indexes created here.
        timeout: seconds that one call may take.
    """

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    shards: int = 1
    replicas: int = 1
    timeout: float = 60.0

    def __post_init__(self) -> None:
        address = Address.of(self.url, "OpenSearch")
        object.__setattr__(self, "user", self.user or address.user)
        object.__setattr__(self, "password", self.password or address.password)
        object.__setattr__(self, "url", address.url)

    @property
    def where(self) -> str:
        """How messages name this cluster."""
        return f"OpenSearch {self.url}"

    @property
    def dataset(self) -> str:
        """OpenLineage's namespace of its indexes."""
        return f"opensearch://{self.url.partition('://')[2]}"

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return replace(self, timeout=self.timeout if math.isinf(limits.read) else min(self.timeout, limits.read))
