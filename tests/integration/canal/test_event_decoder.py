"""The decoder of Canal's flat JSON and protobuf does what airflow_cdc.testing asks of any, and what real messages say."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from airflow_cdc.connectors.canal.capture import CanalCapture
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import MySqlPosition
from airflow_cdc.spark_apps.adapters.canal import Events
from airflow_cdc.spark_apps.adapters.mysql import MySqlLog
from airflow_cdc.spark_apps.apply.changes import net_changes
from airflow_cdc.spark_apps.events import RAW_SCHEMA
from airflow_cdc.spark_apps.ports import EventDecoder, SourceLog
from airflow_cdc.testing.events import EventBench, EventDecoderContract, Image, Record
from tests.apply_support import ITEMS, UUID
from tests.unit.connectors.canal.packed import packed
from tests.unit.connectors.canal.settings import FOLLOWED, PROTOBUF

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGES = json.loads((Path(__file__).parents[2] / "data" / "canal-messages.json").read_text())["messages"]
TS_MS = 1_800_000_000_000
TYPES = {"c": "INSERT", "u": "UPDATE", "d": "DELETE", "t": "TRUNCATE"}


@dataclass(frozen=True, slots=True)
class CanalBench:
    """Records as Canal's flat JSON has them."""

    decoder: EventDecoder
    log: SourceLog = field(default_factory=MySqlLog)
    keyed: Table = ITEMS

    @property
    def keyless(self) -> Table:
        return replace(self.keyed, name="events", key=())

    def event(
        self,
        table: Table,
        op: str,
        before: Image | None,
        after: Image | None,
        *,
        at: int,
        row: int = 0,
        snapshot: str = "",
    ) -> Record:
        """See EventBench: the order within a transaction is that of the topic."""
        del row, snapshot
        now = before if op == "d" else after
        value = {
            "data": None if now is None else [_texts(now)],
            "old": [_texts({k: v for k, v in before.items() if after.get(k) != v})] if before and after else None,
            "database": table.schema,
            "table": table.name,
            "type": TYPES.get(op, op),
            "isDdl": op == "t",
            "es": TS_MS + at * 1000,
            "gtid": f"{UUID}:1-{at}" if at else "",
        }
        return None, json.dumps(value).encode()

    def tombstone(self, table: Table, key: Image) -> Record:
        """There are none."""
        raise NotImplementedError

    def placeless(self, table: Table, after: Image) -> Record:
        """See EventBench: as without canal.instance.gtidon."""
        return self.event(table, "c", None, after, at=0)

    def watermark(self, at: int) -> Watermark:
        """See EventBench. Taken between two transactions."""
        position = MySqlPosition("mysql-bin.000003", 1000, GtidSet.parse(f"{UUID}:1-{at}"), 1)
        return Watermark(position, UUID, datetime.fromtimestamp(TS_MS / 1000 + at + 0.5, UTC))


def _texts(image: Mapping[str, Any]) -> dict[str, str | None]:
    return {name: None if value is None else str(value) for name, value in image.items()}


class PackedBench(CanalBench):
    """Records as Canal's protobuf has them."""

    def event(self, *args: Any, **kwargs: Any) -> Record:
        """See EventBench."""
        _, value = CanalBench.event(self, *args, **kwargs)
        return None, packed(json.loads(value or b""))


DECODER = Events(CanalCapture.from_config(FOLLOWED))
UNPACKING = Events(CanalCapture.from_config(PROTOBUF))


class TestFlatJson(EventDecoderContract):
    """With GTIDs."""

    KEYED: ClassVar[bool] = False
    SNAPSHOTS: ClassVar[bool] = False
    ROWS_PLACED: ClassVar[bool] = False

    @pytest.fixture
    def events(self) -> EventBench:
        return CanalBench(DECODER)


class TestProtobuf(TestFlatJson):
    """The same, of the other form, whose operations are numbers."""

    UNKNOWN: ClassVar[str] = "unknown type 99"

    @pytest.fixture
    def events(self) -> EventBench:
        return PackedBench(UNPACKING)


def real(spark: SparkSession, kind: str) -> DataFrame:
    """The messages of a real server."""
    topic = DECODER.routing.topic_of("")
    rows = [(topic, 0, m["offset"], None, bytearray(base64.b64decode(m["value"]))) for m in MESSAGES[kind]]
    return spark.createDataFrame(rows, RAW_SCHEMA)


@pytest.mark.parametrize(("kind", "decoder"), [("flat_gtid", DECODER), ("protobuf_gtid", UNPACKING)])
def test_the_rows_of_real_statements(spark: SparkSession, kind: str, decoder: Events) -> None:
    rows = [r for r in decoder.decode(real(spark, kind), ITEMS).collect() if r["cdc"]["other_table"] is None]
    assert {row["cdc"]["bad"] for row in rows} == {None}
    told = [
        (r["cdc"]["op"], r["key"]["id"], r["before"] and tuple(r["before"]), r["after"] and tuple(r["after"]))
        for r in rows
    ]
    assert told == [
        ("c", 1, None, (1, "a", 10)),
        ("c", 2, None, (2, None, None)),
        ("c", 3, None, (3, "c", 3)),
        ("u", 1, (1, "a", 10), (1, "a", 11)),
        ("u", 3, (3, "c", 3), (3, "c", 4)),
        ("u", 1, (1, "a", 11), (1, None, 11)),
        ("d", 3, (3, "c", 4), None),  # a changed key
        ("c", 103, None, (103, "c", 4)),
        ("d", 1, (1, None, 11), None),
        ("d", 2, (2, None, None), None),
        ("c", 5, None, (5, "e", 5)),
        ("u", 5, (5, "e", 5), (5, "e", 6)),
        ("u", 5, (5, "e", 6), (5, "e", 7)),
        ("u", 5, (5, "e", 7), (5, "replaced", 8)),  # REPLACE
        ("c", 6, None, (6, "f", 6)),
    ]  # fmt: skip
    assert rows[-1]["cdc"]["unknown"] == ["more"]
    numbers = [row["cdc"]["place"]["n"] for row in rows]
    assert numbers == sorted(numbers)
    assert numbers[-5:-2] == [numbers[-5]] * 3  # one transaction
    places = [tuple(row["cdc"]["place"]) for row in rows]
    assert places == sorted(set(places))


def test_records_of_both_forms_and_broken_ones_are_read_side_by_side(spark: SparkSession) -> None:
    """The server's settings were changed; and not all that is in a topic is Canal's."""
    _, flat = CanalBench(DECODER).event(ITEMS, "c", None, {"id": 1, "name": "a", "qty": 1}, at=1)
    values = [flat, packed(json.loads(flat or b"")), b"\xff{", b"\x10\x01", packed()]
    rows = [("shop", 0, at, None, None if value is None else bytearray(value)) for at, value in enumerate(values)]
    read = UNPACKING.decode(spark.createDataFrame(rows, RAW_SCHEMA), ITEMS).collect()
    assert {row["cdc"]["offset"]: row["cdc"]["bad"] for row in read} == {
        0: None,
        1: None,
        2: "the value is not valid UTF-8",
        3: "the value is no message of Canal's: a packet of type 0, which holds no entries",
    }


def test_inv_33_entries_of_one_record_are_applied_in_their_order(spark: SparkSession) -> None:
    """Two statements of one transaction give a key away and take it again, in one record."""
    bench = CanalBench(DECODER)
    images: list[Any] = [
        {"id": 2, "name": "b", "qty": 2},
        {"id": 3, "name": "b", "qty": 2},
        {"id": 2, "name": "c", "qty": 1},
    ]
    made = [("c", None, images[0]), ("u", images[0], images[1]), ("c", None, images[2]), ("d", images[1], None)]
    flats = [json.loads(bench.event(ITEMS, op, before, after, at=1)[1] or b"") for op, before, after in made]
    raw = spark.createDataFrame([("shop", 0, 0, None, bytearray(packed(*flats)))], RAW_SCHEMA)
    decoded = UNPACKING.decode(raw, ITEMS)
    assert [row["cdc"]["place"]["row"] for row in decoded.collect()] == [0, 2, 3, 4, 6]
    net = {row["key"]["id"]: row["after"] and row["after"]["name"] for row in net_changes(decoded).collect()}
    assert net == {2: "c", 3: None}


def test_without_gtids_no_change_has_a_place(spark: SparkSession) -> None:
    rows = DECODER.decode(real(spark, "flat"), ITEMS).collect()
    mine = [row["cdc"] for row in rows if row["cdc"]["other_table"] is None]
    assert mine
    assert all("gtid" in cdc["bad"] and cdc["origin"] is None for cdc in mine)


def test_inv_33_rows_of_one_record_are_applied_in_their_order(spark: SparkSession) -> None:
    """UPDATE items SET id = id + 1 ORDER BY id DESC: key 2 goes and comes in one record."""
    bench = CanalBench(DECODER)
    _, value = bench.event(ITEMS, "u", {"id": 2, "name": "b", "qty": 2}, {"id": 3, "name": "b", "qty": 2}, at=1)
    _, other = bench.event(ITEMS, "u", {"id": 1, "name": "a", "qty": 1}, {"id": 2, "name": "a", "qty": 1}, at=1)
    first, second = json.loads(value or b""), json.loads(other or b"")
    both = {**first, "data": first["data"] + second["data"], "old": first["old"] + second["old"]}
    topic = DECODER.routing.topic_of("")
    raw = spark.createDataFrame([(topic, 0, 0, None, bytearray(json.dumps(both).encode()))], RAW_SCHEMA)
    net = {
        row["key"]["id"]: row["after"] and row["after"]["name"]
        for row in net_changes(DECODER.decode(raw, ITEMS)).collect()
    }
    assert net == {1: None, 2: "a", 3: "b"}


def test_inv_33_an_update_whose_old_rows_are_not_one_for_each_row_is_bad(spark: SparkSession) -> None:
    """Canal leaves out the old row of a change that it does not see, and all after it would move up."""
    bench = CanalBench(DECODER)
    _, value = bench.event(ITEMS, "u", {"id": 2, "name": "b", "qty": 2}, {"id": 2, "name": "c", "qty": 2}, at=1)
    record = json.loads(value or b"")
    record["data"] = [*record["data"], {"id": "3", "name": "x", "qty": "1"}]
    raw = spark.createDataFrame([("shop", 0, 0, None, bytearray(json.dumps(record).encode()))], RAW_SCHEMA)
    assert {row["cdc"]["bad"] for row in DECODER.decode(raw, ITEMS).collect()} == {
        "the event has not an old row for each row"
    }


def test_the_statements_of_a_real_server() -> None:
    @dataclass
    class Sent:
        offset: int
        value: bytes

    records: Any = [Sent(m["offset"], base64.b64decode(m["value"])) for m in MESSAGES["flat_gtid"]]
    statements = DECODER.statements(records, "here")
    assert [one.statement.split(" ")[0] for one in statements] == [
        "CREATE", "CREATE", "CREATE", "ALTER", "RENAME", "CREATE", "DROP",
    ]  # fmt: skip
    rename = next(one for one in statements if one.statement.startswith("RENAME"))
    assert rename.tables == {"shop.events", "shop.happened"}
    assert all(one.origin and one.place for one in statements)
    assert len({one.at for one in statements}) == len(statements)
