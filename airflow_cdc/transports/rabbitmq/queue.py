"""A queue: what it is, and what leads to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import Final

from airflow_cdc.core.observation import TransportFacts
from airflow_cdc.core.text import number_in
from airflow_cdc.fields import Fields

STREAM: Final = "stream"
QUORUM: Final = "quorum"
OWN: Final = "airflow-provider-cdc"  # begins the tags of our own consumers
_BEFORE: Final = "before"
_DELIVERIES: Final = 20  # a quorum queue's delivery-limit where none is set
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

    `messages`: None until the server has counted them, which it does every few seconds. `before`: the queue whose messages are
    moved to this stream. `is_declared`: whether there is such a queue already.
    `dead`: queues of its dead-letter exchange → how many messages are in them.
    """

    name: str
    kind: str
    settings: Mapping[str, object]
    consumers: int
    messages: int | None
    bindings: Sequence[Binding] = ()
    is_declared: bool = True
    before: Queue | None = None
    dead: Mapping[str, int] = field(default_factory=dict)

    def moved_to(self, stream: Queue) -> Queue:
        """The stream that this queue's messages are moved to, with what leads to this queue."""
        return replace(stream, bindings=self.bindings, before=self)

    @property
    def is_stream(self) -> bool:
        """Whether its messages have offsets and stay when they are read."""
        return self.kind == STREAM

    @property
    def config(self) -> dict[str, str]:
        """Its settings by the names that every transport has for them, and those of its own."""
        age, size = self.settings.get("max-age"), self.settings.get("max-length-bytes")
        limits = {"retention.ms": age and str(_milliseconds(str(age))), "retention.bytes": size and str(size)}
        return {
            "kind": self.kind,
            "consumers": str(self.consumers),
            "bindings": json.dumps(sorted(map(astuple, self.bindings))),
            **{name: value for name, value in limits.items() if value},
            **({_BEFORE: json.dumps(asdict(self.before.moved))} if self.before else {}),
        }

    @property
    def moved(self) -> Moved:
        """What a diagnosis needs of a queue whose messages are moved to a stream."""
        return Moved(self.name, self.kind, self.consumers, tuple(self._losses()), dict(self.dead))

    def _losses(self) -> Iterator[str]:
        """The settings by which messages leave the queue, or overtake others, before they are moved."""
        own = self.settings
        if "message-ttl" in own:
            yield f"message-ttl {own['message-ttl']}: older messages are removed"
        if "expires" in own:
            yield f"expires {own['expires']}: the queue is removed when nobody reads it for so long"
        limits = [f"{name} {own[name]}" for name in ("max-length", "max-length-bytes") if name in own]
        if limits and own.get("overflow", "drop-head") == "drop-head":
            yield f"{', '.join(limits)} with overflow drop-head: the oldest messages are removed"
        elif limits:
            yield f"{', '.join(limits)} with overflow {own['overflow']}: new messages are rejected, and not every connector asks"
        if "max-priority" in own:
            yield f"max-priority {own['max-priority']}: messages overtake others"
        limit = Fields(own).number("delivery-limit") if "delivery-limit" in own else _DELIVERIES
        if self.kind == QUORUM and limit >= 0:
            yield f"delivery-limit {limit}: a message is removed when that many processes have died with it; set it to -1"


@dataclass(frozen=True, slots=True)
class Moved:
    """A queue whose messages are moved to a stream: `consumers` are those of others, `losses` how it may lose messages."""

    name: str
    kind: str
    consumers: int
    losses: Sequence[str]
    dead: Mapping[str, int]


def moved_of(transport: TransportFacts) -> dict[str, Moved]:
    """Topic → the queue whose messages are moved to its stream, as a diagnosis has it."""
    texts = {name: config[_BEFORE] for name, config in transport.configs.items() if _BEFORE in config}
    return {name: Moved(**json.loads(text)) for name, text in texts.items()}


def bindings_of(transport: TransportFacts) -> dict[str, tuple[Binding, ...]]:
    """Queue → what leads to it, as a diagnosis has it; {} for another transport."""
    texts = {name: config["bindings"] for name, config in transport.configs.items() if "bindings" in config}
    return {name: tuple(Binding(*one) for one in json.loads(text)) for name, text in texts.items()}


def queue_of(answer: Mapping[str, object], bindings: Sequence[Binding], dead: Mapping[str, int] | None = None) -> Queue:
    """A queue as the management interface describes it."""
    value = Fields(answer)
    settings = settings_of(value)
    return Queue(
        name=value.text("name"),
        kind=str(value.get("type") or settings.get("queue-type") or "classic"),
        settings=settings,
        consumers=(value.number("consumers") if value.get("consumers") else 0) - _ours(value),
        messages=None if value.get("messages") is None else value.number("messages"),
        bindings=bindings,
        dead=dead or {},
    )


def settings_of(value: Fields) -> Fields:
    """A queue's policy and its arguments, which win, without their prefix."""
    arguments = {name.removeprefix("x-"): one for name, one in value.inner("arguments").items()}
    return Fields({**value.inner("effective_policy_definition"), **arguments})


def _ours(value: Fields) -> int:
    return sum(str(one.get("consumer_tag")).startswith(OWN) for one in value.each("consumer_details"))


def _milliseconds(age: str) -> int:
    """`7D` in milliseconds; -1, for ever, for anything else."""
    number, unit = number_in(age[:-1]), age[-1:]
    return -1 if number is None or unit not in _UNITS_MS else number * _UNITS_MS[unit]
