"""No sink: consumers unknown to this package read the pipeline's events. Its client refuses every call with a one-line error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from airflow_cdc.core.endpoint import Unlimited
from airflow_cdc.core.kind import Lazy, SinkKind
from airflow_cdc.core.pipeline import NoSink, no_sink
from airflow_cdc.core.setup import Setup

WHERE = "no sink"


@dataclass(frozen=True, slots=True)
class NoEndpoint(Unlimited):
    """The endpoint of a pipeline without a sink: it has no address."""

    where: str = WHERE
    dataset: str = ""


class NoSinkClient(Unlimited):
    """Has none of a sink client's methods: using one raises UsageError."""

    def __init__(self, endpoint: NoEndpoint) -> None:
        self.where = endpoint.where

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # looked up by Python itself, for example by copy and pickle
            raise AttributeError(name)
        raise no_sink(f"`{name}`")


# `airflow cdc init` has no question about it
SETUP = Setup()

KIND = SinkKind(
    name="none",
    title="No sink",
    settings=NoSink,
    endpoint=Lazy(f"{__name__}:NoEndpoint"),
    client=Lazy(f"{__name__}:NoSinkClient"),
    hook=None,
    setup=Lazy(f"{__name__}:SETUP"),
)
