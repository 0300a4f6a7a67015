"""What the demo keeps the copies in: `make demo SINK=…`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from demo import peer
from stack import connections
from stack.shop.check import TableCheck
from stack.shop.dataset import CATALOG, SCHEMA, TABLES

if TYPE_CHECKING:
    from demo.make import Settings
    from demo.show import Show
    from demo.world import World

# runs a DAG under a title
Act = Callable[[str, str], object]


class Sink(Protocol):
    """One kind of sink.

    Attributes:
        kind: `sink.kind` in pipelines.yaml.
        title: what people call it; beside Kafka and Connect.
        tables: of the shop, those that it takes.
        alters: whether tables may change while the connector is down.
        services: of the stack, beside the source's; `plugins`: of Connect.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    tables: ClassVar[tuple[str, ...]]
    alters: ClassVar[bool]
    services: ClassVar[tuple[str, ...]]
    plugins: ClassVar[tuple[str, ...]]

    def declared(self) -> Mapping[str, Any]:
        """Its parts of the pipeline in pipelines.yaml."""
        ...

    def connections(self, world: World) -> dict[str, connections.Connection]:
        """Its Airflow connections."""
        ...

    def connector(self, name: str) -> Settings:
        """Settings of a source's connector that feeds it."""
        ...

    def copy(self, world: World, act: Act, show: Show) -> None:
        """The first copy."""
        ...

    def apply(self, act: Act, title: str) -> None:
        """Apply what was written, where we are the ones who do."""
        ...

    def wait_healed(self, world: World) -> None:
        """Wait until the peer's copy has all that the peer has sent by now."""
        ...

    def ghosts(self, world: World) -> dict[str, int]:
        """Table → keys that the peer's copy has and the source has not. With the writer stopped and drained."""
        ...

    def check(self, world: World) -> list[TableCheck]:
        """Every row of every table against the source's, by other means than the product's."""
        ...


class Lake:
    """See Sink: Iceberg tables, which the product writes. The peer has no more than its topics."""

    kind: ClassVar[str] = "iceberg"
    title: ClassVar[str] = ""
    tables: ClassVar[tuple[str, ...]] = TABLES
    alters: ClassVar[bool] = True
    services: ClassVar[tuple[str, ...]] = ()
    plugins: ClassVar[tuple[str, ...]] = ()

    def declared(self) -> Mapping[str, Any]:
        """See Sink."""
        return {
            "sink": {"kind": "iceberg", "catalog": CATALOG, "namespace": SCHEMA, "writer": "cdc_apply"},
            "spark": {"conn_id": "spark_default"},
        }

    def connections(self, world: World) -> dict[str, connections.Connection]:
        """See Sink."""
        return {CATALOG: connections.to_lake(world.lake)}

    def connector(self, name: str) -> Settings:  # noqa: ARG002 - both alike
        """See Sink."""
        return {}

    def copy(self, world: World, act: Act, show: Show) -> None:  # noqa: ARG002 - the DAG knows it
        """See Sink."""
        act("cdc_recovery", "first copy: the new pipeline is recovered into empty tables")

    def apply(self, act: Act, title: str) -> None:
        """See Sink."""
        act("cdc_apply__shop", title)

    def wait_healed(self, world: World) -> None:
        """Nothing to wait for: the re-snapshot is in the topics."""

    def ghosts(self, world: World) -> dict[str, int]:
        """See Sink: of the topics."""
        return peer.ghosts(world.bootstrap, world.shop)

    def check(self, world: World) -> list[TableCheck]:
        """See Sink."""
        return world.shop.check(world.lake, SCHEMA)


LAKE: Final = Lake()


def sinks() -> Mapping[str, Sink]:
    """Every sink that the demo can be told with, by its kind. Not made before it is asked for: see their clients."""
    from demo.jdbc import Jdbc

    return {sink.kind: sink for sink in (LAKE, Jdbc())}
