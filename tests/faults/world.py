"""The world of the kill matrix: real servers, proxies before them, a small shop, and the product's view of it.

What concerns one kind of source stands in the module of its name, which also makes it (`world`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.flows.run import Run, make_run
from airflow_cdc.kinds import read_pipeline
from airflow_cdc.parts import Endpoints
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.transports.kafka.client import KafkaEndpoint
from demo.world import NAMESPACE, SPARK, World
from stack import cluster, jvm
from stack.connect import ConnectWorker
from stack.shop import connectors, dataset
from stack.shop.check import TableCheck
from stack.shop.dataset import CATALOG
from tests.e2e.conftest import again_and_again
from tests.faults.proxy import HOST, Proxy

__all__ = [
    "NAMESPACE",
    "PIPELINE",
    "ROWS",
    "TABLES",
    "ConnectWorld",
    "FaultWorld",
    "Messages",
    "Reader",
    "proxy_of",
    "worker_of",
]
ROWS = 2_000
TABLES = ("customers", "orders", "events")
FULL_NAMES = tuple(f"{dataset.SCHEMA}.{table}" for table in TABLES)
PIPELINE = "shop"


@dataclass
class FaultWorld:
    """Everything a cell acts on. `source` is the proxy through which the product reaches the source."""

    folder: Path
    stack: cluster.Stack
    source: Proxy
    chunk_rows: int = ROWS // 4
    gaps: int = 0

    server: ClassVar[str]  # the name of the source's server in the stack
    tables: ClassVar[tuple[str, ...]] = TABLES

    # --- what each world says ---------------------------------------------------------------------------------------

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline as a registry would declare it; nobody is there to approve."""
        raise NotImplementedError

    @property
    def endpoints(self) -> Endpoints:
        """Addresses as the product knows them."""
        raise NotImplementedError

    @property
    def sink(self) -> Any:
        """The product's client of the sink, as the harness looks at it."""
        raise NotImplementedError

    @property
    def proxies(self) -> tuple[Proxy, ...]:
        """All proxies between the product and its systems."""
        return (self.source,)

    def reader(self) -> Reader:
        """What looks at the tables' main all the time."""
        raise NotImplementedError

    def restart_server(self) -> None:
        """Start the source's server again on its data."""
        raise NotImplementedError

    def writing(self) -> AbstractContextManager[Any]:
        """A writer at work beside the block."""
        raise NotImplementedError

    def make_gap(self) -> None:
        """The connector fails on a lost log; rows were deleted, changed and added meanwhile, and a column came or went."""
        raise NotImplementedError

    def compare(self) -> list[TableCheck]:
        """The independent check of all tables; the writer must be off and everything applied."""
        raise NotImplementedError

    def beating(self) -> AbstractContextManager[None]:
        """The connector shows what it has read although nobody writes, beside the block."""
        return nullcontext()

    def settle(self) -> None:
        """Wait until the connector has sent all that was written."""
        raise NotImplementedError

    def left_behind(self) -> str:
        """What a recovery left at the source that is not the connector's own; "" if nothing."""
        raise NotImplementedError

    def messages(self, resumed_from: Mapping[str, Any]) -> Messages:
        """What the connector sent since it was resumed at this offset; not counted by default."""
        return Messages()

    # --- what is alike ----------------------------------------------------------------------------------------------

    def run(self, run_id: str) -> Run:
        """The run as the harness looks at it."""
        return make_run(self.pipeline, self.endpoints, run_id, str(self.folder / "reports"))

    def settings(self, run_id: str, **more: Any) -> dict[str, Any]:
        """What a step's process is given; it holds credentials."""
        return {
            "pipeline": self.pipeline.to_json(),
            "endpoints": self.endpoints.to_json(self.pipeline),
            "run_id": run_id,
            "report_dir": str(self.folder / "reports"),
            "submit": submit_options(),
            # several commits in every table, so that there is a middle of reading
            "chunk_rows": self.chunk_rows,
            "group_chunks": 1,
            **more,
        }

    def mismatch(self) -> str:
        """What the independent check found first, "" if all tables are equal."""
        different = [one for one in self.compare() if not one.equal]
        return f"MISMATCH: {different[0].table}: {'; '.join(different[0].examples)[:300]}" if different else ""


@dataclass
class ConnectWorld(FaultWorld):
    """Debezium through Kafka into the lake. `connect` is the proxy before the Connect worker."""

    connect: Proxy = field(kw_only=True)
    lake: Lake = field(init=False)

    def __post_init__(self) -> None:
        self.lake = Lake(CATALOG, self.demo.lake)

    def source_settings(self) -> dict[str, Any]:
        """The part `source` of the pipeline, but for its tables and its connection."""
        raise NotImplementedError

    def source_endpoint(self) -> Any:
        """The source's address behind the proxy. Without TLS: the proxy looks for moments in what is asked."""
        raise NotImplementedError

    def change_and_lose(self) -> None:
        """Rows change, a column comes or goes, and the log that says how is lost; the connector is stopped."""
        raise NotImplementedError

    @property
    def demo(self) -> World:
        """The demo's world on the same servers."""
        return World(self.folder, self.stack)

    @property
    def sink(self) -> Lake:
        """See FaultWorld."""
        return self.lake

    @property
    def proxies(self) -> tuple[Proxy, ...]:
        """See FaultWorld."""
        return (self.source, self.connect)

    def reader(self) -> LakeReader:
        """See FaultWorld."""
        return LakeReader(self.lake)

    @property
    def pipeline(self) -> Pipeline:
        """See FaultWorld."""
        return read_pipeline(
            {
                "name": PIPELINE,
                "source": {**self.source_settings(), "conn_id": "m", "tables": list(FULL_NAMES)},
                "connector": {"kind": "debezium", "conn_id": "c", "name": PIPELINE},
                "transport": {"kind": "kafka", "conn_id": "k"},
                "sink": {"kind": "iceberg", "catalog": CATALOG, "namespace": NAMESPACE, "writer": "cdc_apply"},
                "spark": {"conn_id": "s"},
                "policy": {"approval": "never", "max_deletes": "100%"},
            }
        )

    @property
    def endpoints(self) -> Endpoints:
        """See FaultWorld: the source and Connect behind the proxies."""
        return Endpoints(
            self.source_endpoint(),
            ConnectEndpoint(f"http://{HOST}:{self.connect.port}"),
            KafkaEndpoint(self.demo.bootstrap),
            IcebergEndpoint(CATALOG, self.demo.lake),
        )

    def make_gap(self) -> None:
        """See FaultWorld."""
        worker = worker_of(self.stack)
        connectors.stop(worker, PIPELINE)
        self.gaps += 1
        self.change_and_lose()
        connectors.failure(worker, PIPELINE)


def worker_of(stack: cluster.Stack) -> ConnectWorker:
    """The Connect worker of a stack that has one."""
    assert stack.connect is not None
    return stack.connect


def proxy_of(worker: ConnectWorker) -> Proxy:
    """A proxy before a Connect worker."""
    host, _, port = worker.url.removeprefix("http://").partition(":")
    return Proxy((host, int(port)))


def submit_options() -> list[str]:
    """What a local driver's JVM is started with: the demo's settings."""
    own = "-Duser.timezone=UTC -XX:-UsePerfData"  # so that a full disk is met by rows, not by the JVM's own file
    return ["--master=local[2]", *(f"--conf={key}={value}" for key, value in (SPARK | jvm.conf(own)).items())]


def submit_command() -> list[str]:
    """spark-submit for a local driver with the demo's settings."""
    return [str(Path(sys.executable).with_name("spark-submit")), *submit_options()]


class Messages(NamedTuple):
    """What the connector sent: changes that the writer made, those that arrived, and those that arrived again."""

    made: int = 0
    arrived: int = 0
    again: int = 0

    @property
    def lost(self) -> int:
        """Changes that never arrived."""
        return self.made - self.arrived


@dataclass
class Reader:
    """Looks at main of every table again and again; `states` are the distinct contents of each, in order."""

    states: dict[str, list[int]] = field(default_factory=dict, kw_only=True)

    def look(self) -> None:
        """Note what main holds now."""
        raise NotImplementedError

    def note(self, table: str, rows: int) -> None:
        """Note a content, by its number, unless the last one was the same."""
        seen = self.states.setdefault(table, [])
        if not seen or seen[-1] != rows:
            seen.append(rows)

    @property
    def most(self) -> int:
        """The largest number of states that any table showed."""
        return max((len(seen) for seen in self.states.values()), default=0)

    @contextmanager
    def at_work(self, seconds: float = 0.5) -> Iterator[None]:
        """Look all the time beside the block."""
        self.look()
        with again_and_again(self.look, seconds):
            yield
        self.look()


@dataclass
class LakeReader(Reader):
    """What main pointed to between two looks is not missed: Iceberg keeps the log of it, and every entry is read."""

    lake: Lake
    _entries: dict[str, int] = field(default_factory=dict)

    def look(self) -> None:
        """Read every state that main had since the last look; at the first look the one it has."""
        for name in TABLES:
            if not self.lake.exists(NAMESPACE, name):
                continue
            table = self.lake.table(NAMESPACE, name)
            log = table.metadata.snapshot_log
            for entry in log[self._entries.get(name, max(0, len(log) - 1)) :]:
                self.note(name, content(table.scan(snapshot_id=entry.snapshot_id).to_arrow().to_pylist()))
            self._entries[name] = len(log)


def content(rows: Iterable[Mapping[str, Any]]) -> int:
    """A number that says what rows a table holds, in any order."""
    texts = sorted(repr(sorted(row.items())) for row in rows)
    return hash("\n".join(texts))
