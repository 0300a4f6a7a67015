"""A queue: what it is, and what leads to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final

from airflow_cdc.core.observation import TransportFacts

STREAM: Final = "stream"
_DIRECT, _FANOUT = "direct", "fanout"
_UNITS_MS: Final = {"Y": 31_536_000_000, "M": 2_592_000_000, "D": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}


@dataclass(frozen=True, slots=True, order=True)
class Binding:
    """What leads to a queue: messages of an exchange ("": the default one, direct) by their routing key."""

    exchange: str
    key: str
    exchange_kind: str

    def carries(self, exchange: str, key: str) -> bool | None:
        """Whether it brings the queue a message with that routing key; None: patterns and headers are not read here."""
        if exchange != self.exchange:
            return False
        if self.exchange_kind == _FANOUT:
            return True
        return self.key == key if self.exchange_kind == _DIRECT else None

    def __str__(self) -> str:
        return f"{self.exchange_kind} exchange {self.exchange!r} by {self.key!r}"


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue: its kind (classic, quorum, stream), arguments and policy as one, its readers, and what leads to it.

    `messages`: None until the server has counted them, which it does every few seconds.
    """

    name: str
    kind: str
    settings: Mapping[str, Any]
    consumers: int
    messages: int | None
    bindings: Sequence[Binding] = ()

    @property
    def is_stream(self) -> bool:
        """Whether its messages have offsets and stay when they are read."""
        return self.kind == STREAM

    @property
    def config(self) -> dict[str, str]:
        """Its settings by the names that every transport has for them, and those of its own."""
        age, size = self.settings.get("max-age"), self.settings.get("max-length-bytes")
        kept = {"retention.ms": age and str(_milliseconds(str(age))), "retention.bytes": size and str(size)}
        return {
            "kind": self.kind,
            "consumers": str(self.consumers),
            "bindings": json.dumps(sorted(map(astuple, self.bindings))),
            **{name: value for name, value in kept.items() if value},
        }


def bindings_of(transport: TransportFacts) -> dict[str, tuple[Binding, ...]]:
    """Queue → what leads to it, as a diagnosis has it; {} for another transport."""
    told = {name: config["bindings"] for name, config in transport.configs.items() if "bindings" in config}
    return {name: tuple(Binding(*one) for one in json.loads(text)) for name, text in told.items()}


def queue_of(value: Mapping[str, Any], bindings: Sequence[Binding]) -> Queue:
    """A queue as the management interface describes it."""
    arguments = {name.removeprefix("x-"): one for name, one in (value.get("arguments") or {}).items()}
    policy = dict(value.get("effective_policy_definition") or {})
    return Queue(
        name=value["name"],
        kind=str(value.get("type") or arguments.get("queue-type") or "classic"),
        settings={**policy, **arguments},
        consumers=int(value.get("consumers") or 0),
        messages=value.get("messages"),
        bindings=bindings,
    )


def _milliseconds(age: str) -> int:
    """`7D` in milliseconds; -1, for ever, for anything else."""
    number, unit = age[:-1], age[-1:]
    return int(number) * _UNITS_MS[unit] if number.isdigit() and unit in _UNITS_MS else -1
