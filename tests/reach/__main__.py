"""`make reach`: what a diagnosis says of public connector configurations, in four scenes each, and whether rows are followed.

The scenes are observations built in memory (a purged log, a lost slot, all in order, a slot that keeps 500 GB); settings and
diagnosis are the real ones. `FILE=` names another file of the same form. The result is build/reach.json.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from airflow_cdc.connectors.debezium.config import ConnectorSettings, publication_of
from airflow_cdc.connectors.debezium.connector import address_in
from airflow_cdc.core.observation import ConnectorFacts, Observation, SinkFacts, TransportFacts
from airflow_cdc.decisions.diagnosis.diagnose import diagnose
from airflow_cdc.kinds import rules_for
from airflow_cdc.sources.postgres.position import Lsn
from airflow_cdc.sources.postgres.slot import WalStatus, forecast
from tests.paths import ROOT
from tests.unit.builders import CONNECTOR, HEALTHY, PIPELINE, SOURCE
from tests.unit.faults import NO_SINK, PURGED
from tests.unit.sources.postgres import pg_scene as pg

FILE = ROOT / "tests" / "data" / "reach" / "configurations.json"
_FULL = 500 * 2**30


def of_config(facts: ConnectorFacts, config: Mapping[str, str]) -> ConnectorFacts:
    """The facts of a connector in order, with these settings."""
    capture = ConnectorSettings.from_config(config)
    beats = capture.heartbeat_ms > 0
    return replace(facts, config=dict(config), capture=capture, heartbeats=beats, address=address_in(config))


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
    config = {str(key): str(value) for key, value in dict(entry["config"]).items()}  # type: ignore[call-overload]
    given = {
        scene: (diagnose(seen, rules_for(seen.pipeline)).code, right) for scene, (seen, right) in scenes(config).items()
    }
    refusals = ConnectorSettings.from_config(config).refusals
    return {
        "id": entry["id"],
        "diagnosis": {scene: code for scene, (code, _) in given.items()},
        "wrong": sorted(scene for scene, (code, right) in given.items() if code != right),
        "rows": "refused" if refusals else "followed",
        "why": [one.what for one in refusals],
    }


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
