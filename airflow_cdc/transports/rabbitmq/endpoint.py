"""Where a RabbitMQ server is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

from airflow_cdc.core.endpoint import Address, CallLimits
from airflow_cdc.core.tls import TlsSettings


@dataclass(frozen=True, slots=True)
class RabbitMqEndpoint(TlsSettings):
    """A virtual host of a server, or of a cluster behind one address.

    Attributes:
        queue: the queue that is read; "": the one with the topic's name.
        stream: the stream queue that the queue's messages are brought into, to be read there; "": none.
        management: scheme, host and port of the management interface.
        tls: whether messages are read through TLS; the management interface says so in its address.
        timeout: seconds that one call may take.
    """

    host: str
    port: int = 5672
    vhost: str = "/"
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    management: str = ""
    tls: bool = False
    timeout: float = 30.0
    queue: str = ""
    stream: str = ""

    def __post_init__(self) -> None:
        # a login there would be another one than that of the messages
        object.__setattr__(self, "management", Address.of(self.management, "RabbitMQ's management interface").url)

    @property
    def where(self) -> str:
        """How messages name this server."""
        return f"RabbitMQ {self.host}:{self.port}{f', virtual host {self.vhost}' if self.vhost != '/' else ''}"

    @property
    def api(self) -> str:
        """The management interface, by its own default port where the connection names none."""
        return self.management or f"{'https' if self.tls else 'http'}://{self.host}:{15671 if self.tls else 15672}"

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return self if math.isinf(limits.topic) else replace(self, timeout=min(self.timeout, limits.topic))
