"""`make reach`: what a diagnosis says of public connector configurations, in four scenes each, and whether rows are followed.

The scenes are observations built in memory (a purged log, a lost slot, all in order, a slot that keeps 500 GB); settings and
diagnosis are the real ones. `FILE=` names another file of the same form. The result is build/reach.json.

An entry has its `config` as Kafka Connect would call it (of a `form` flink: the options of the job's source), or the `text` of a
file of properties (of a `form` server: Debezium Server's; canal: both of Canal's files in one).
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from airflow_cdc.connectors.canal.capture import DESTINATION, SERVER_MODE, captured, kept_elsewhere
from airflow_cdc.connectors.canal.connector import CanalFacts
from airflow_cdc.connectors.canal.cursor import TYPE, CursorCodec
from airflow_cdc.connectors.canal.kind import CanalSettings
from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.connector import address_in
from airflow_cdc.connectors.debezium.healing import publication_of
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.debezium_engine.connector import DebeziumEngine
from airflow_cdc.connectors.debezium_engine.endpoint import EngineEndpoint
from airflow_cdc.connectors.flink.capture import FlinkCapture, flat
from airflow_cdc.connectors.flink.connector import FlinkFacts
from airflow_cdc.connectors.flink.kind import FlinkSettings
from airflow_cdc.connectors.flink.offset import FlinkCodec
from airflow_cdc.connectors.java_properties import parse
from airflow_cdc.core.observation import ConnectorFacts, Observation, SinkFacts, TaskState, TransportFacts
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.decisions.diagnosis.diagnose import diagnose
from airflow_cdc.kinds import rules_for
from airflow_cdc.sources.mysql.facts import BinlogFile
from airflow_cdc.sources.postgres.position import Lsn
from airflow_cdc.sources.postgres.slot import WalStatus, forecast
from airflow_cdc.transports.direct import DirectSettings
from airflow_cdc.transports.rabbitmq.kind import RabbitMqSettings
from tests.paths import ROOT
from tests.unit.builders import CONNECTOR, HEALTHY, PIPELINE, SOURCE, UUID
from tests.unit.faults import NO_SINK, PURGED
from tests.unit.sources.postgres import pg_scene as pg

FILE = ROOT / "tests" / "data" / "reach" / "configurations.json"
_FULL = 500 * 2**30


def of_config(facts: ConnectorFacts, config: Mapping[str, str]) -> ConnectorFacts:
    """The facts of a connector in order, with these settings."""
    capture = ConnectorSettings.from_config(config)
    beats = capture.heartbeat_ms > 0
    return replace(facts, config=dict(config), capture=capture, heartbeats=beats, address=address_in(config))


def of_properties(text: str) -> tuple[dict[str, str], str]:
    """What Debezium Server's file says of its connector, and why its offset can't be read; "" if it can be."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "application.properties"
        path.write_text(text)
        engine = DebeziumEngine(EngineEndpoint(machine="m", config=str(path)), MySqlCodec())
        return dict(engine.raw_config("shop")), engine.offset_unseen()


def unseen(scenes: Mapping[str, tuple[Observation, str]], why: str) -> dict[str, tuple[Observation, str]]:
    """The scenes of a connector whose offset can't be read: only a slot says that its position is lost."""
    found = {}
    for name, (seen, right) in scenes.items():
        connector = seen.connector
        assert isinstance(connector, ConnectorFacts)
        blind = replace(connector, offset=None, key=None, offsets_count=0, offset_unseen=why)
        found[name] = (replace(seen, connector=blind), right if right.startswith("SLOT_INV") else "UNKNOWN")
    return found


def of_canal(text: str) -> tuple[dict[str, tuple[Observation, str]], str]:
    """The scenes of a Canal server with these properties, and why no rows can be taken from what it sends."""
    config = {**parse(text), DESTINATION: "shop"}
    capture = captured(config)
    place = {"gtid": "", "included": False, "journalName": "mysql-bin.000009", "position": 500}
    value = {**place, "serverId": SOURCE.server_id, "timestamp": 1}
    identity = {"slaveId": -1, "sourceAddress": {"address": "h1", "port": 3306}}
    cursor = {"@type": TYPE, "identity": identity, "postion": value}
    facts = CanalFacts(
        "RUNNING",
        (TaskState(0, "RUNNING"),),
        config,
        CursorCodec().read(cursor, {"server": "shop"}),
        {"server": "shop"},
        1,
        capture=capture,
    )
    queued = config.get(SERVER_MODE, "").lower() == "rabbitmq"
    connector = CanalSettings("canal", "c", "shop", conf="/c", start="x", stop="x", status="x")
    transport = RabbitMqSettings("rabbitmq", "r") if queued else PIPELINE.transport
    pipeline = replace(PIPELINE, sink=NO_SINK, connector=connector, transport=transport)
    found = _mysql(facts, pipeline, "CONNECTOR_MISCONFIGURED" if capture.healing else "HEALTHY", "BINLOG_PURGED")
    why = kept_elsewhere(config, "file")
    return (unseen(found, why) if why else found), str(capture.rows_refused or "")


def of_flink(options: Mapping[str, str]) -> tuple[dict[str, tuple[Observation, str]], str]:
    """The scenes of a Flink job with a source of these options, and why its rows are not the source's."""
    capture = FlinkCapture.from_config(flat("shop", (dict(options),)))
    value = {"file": "mysql-bin.000009", "pos": "500", "kind": "SPECIFIC", "gtids": f"{UUID}:1-80", "ts_sec": "1"}
    facts = FlinkFacts(
        "RUNNING",
        (TaskState(0, "RUNNING"),),
        {},
        FlinkCodec().read(value, {"server": "shop"}),
        {"server": "shop"},
        1,
        capture=capture,
        jobs=("j1",),
        checkpoint_ms=10_000,
    )
    pipeline = replace(
        PIPELINE, sink=NO_SINK, connector=FlinkSettings("flink", "f", "shop"), transport=DirectSettings("direct")
    )
    healed = "CONNECTOR_MISCONFIGURED" if capture.healing else "HEALTHY"
    return _mysql(facts, pipeline, healed, "GTID_PURGED"), str(capture.rows_refused or "")


def _mysql(facts: ConnectorFacts, pipeline: Pipeline, in_order: str, purged: str) -> dict[str, tuple[Observation, str]]:
    seen = replace(HEALTHY, pipeline=pipeline, sink=SinkFacts({}), connector=facts, transport=TransportFacts({}))
    source = replace(SOURCE, version="8.0.40")  # Canal and Flink CDC ask it for `SHOW MASTER STATUS`
    lost = PURGED if purged == "GTID_PURGED" else replace(source, binlog_files=(BinlogFile("mysql-bin.000010", 1000),))
    return {"purged": (replace(seen, source=lost), purged), "in order": (replace(seen, source=source), in_order)}


def scenes(config: Mapping[str, str]) -> dict[str, tuple[Observation, str]]:
    """Scene → what is seen of this configuration in it, and the right problem.

    In order, a connector that is set to pass over a gap by itself is misconfigured, which is no matter of its events; worse
    is one that keeps deletes out of its topics.
    """
    settings = ConnectorSettings.from_config(config)
    in_order = "CONNECTOR_MISCONFIGURED" if settings.healing else "HEALTHY"
    if settings.deletes_lost():
        in_order = "DELETES_DROPPED"
    if "postgres" not in config["connector.class"].lower():
        connector = of_config(CONNECTOR, config)
        mysql = replace(HEALTHY, pipeline=replace(PIPELINE, sink=NO_SINK), sink=SinkFacts({}), connector=connector)
        return {
            "purged": (replace(mysql, source=PURGED), "GTID_PURGED"),
            "in order": (replace(mysql, source=SOURCE), in_order),
        }
    name, plugin = publication_of(config), config.get("plugin.name") or "pgoutput"
    slot = replace(pg.SLOT, plugin=plugin)
    failed = pg.connector(trace="java.io.EOFException")
    lost = replace(slot, active_pid=None, wal_status=WalStatus.LOST, restart=None)
    seen = pg.observed(pg.facts(slot, publication_name=name), of_config(pg.connector(), config))
    seen = replace(
        seen, pipeline=replace(seen.pipeline, sink=NO_SINK), sink=SinkFacts({}), transport=TransportFacts({})
    )
    grows = forecast(replace(slot, restart=Lsn(1)), Lsn(_FULL), 1000.0, 0)
    return {
        "lost": (
            replace(seen, source=pg.facts(lost, publication_name=name), connector=of_config(failed, config)),
            "SLOT_INVALIDATED",
        ),
        "in order": (seen, in_order),
        "500 GB": (replace(seen, source=pg.facts(slot, publication_name=name, forecast=grows)), "SLOT_GROWS"),
    }


def judged(entry: Mapping[str, object]) -> dict[str, object]:
    """What one configuration gives."""
    seen_in, why = _tried(entry)
    given = {scene: (diagnose(seen, rules_for(seen.pipeline)).code, right) for scene, (seen, right) in seen_in.items()}
    return {
        "id": entry["id"],
        "diagnosis": {scene: code for scene, (code, _) in given.items()},
        "wrong": sorted(scene for scene, (code, right) in given.items() if code != right),
        "rows": "refused" if why else "followed",
        "why": why,
    }


def _tried(entry: Mapping[str, object]) -> tuple[dict[str, tuple[Observation, str]], list[str]]:
    """The scenes of an entry, and why its rows are refused."""
    form, text = entry.get("form"), str(entry.get("text") or "")
    config = {str(key): str(value) for key, value in dict(entry.get("config") or {}).items()}  # type: ignore[call-overload]
    if form in ("canal", "flink"):
        found, refused = of_canal(text) if form == "canal" else of_flink(config)
        return found, [refused] if refused else []
    away = ""
    if text:
        config, away = of_properties(text)
    found = unseen(scenes(config), away) if away else scenes(config)
    return found, [one.what for one in ConnectorSettings.from_config(config).refusals]


def main() -> int:
    """0 if every scene of every configuration gets a right diagnosis, else 1; those set to heal themselves are named."""
    entries = json.loads(Path(os.environ.get("FILE") or FILE).read_text())
    results = [judged(entry) for entry in entries]
    target = ROOT / "build" / "reach.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    wrong = [one for one in results if one["wrong"]]
    whys: Counter[str] = Counter(str(why).partition(":")[0] for one in results for why in one["why"])  # type: ignore[attr-defined]
    followed = sum(one["rows"] == "followed" for one in results)
    print(
        f"{len(results)} configurations: {len(results) - len(wrong)} diagnosed rightly in every scene, rows of {followed} followed"
    )
    for why, count in whys.most_common():
        print(f"  rows refused {count:3}  {why}")
    for one in wrong:
        print(f"  other {one['id']}: {one['diagnosis']}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
