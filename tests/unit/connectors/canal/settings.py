"""Settings of a Canal server whose events can be decoded."""

from __future__ import annotations

FOLLOWED = {
    "canal.instance.destination": "shop",
    "canal.serverMode": "kafka",
    "canal.mq.topic": "shop",
    "canal.mq.flatMessage": "true",
    "canal.instance.gtidon": "true",
    "canal.instance.tsdb.enable": "false",
    "connector.time_zone": "UTC",
}
PROTOBUF = {**FOLLOWED, "canal.mq.flatMessage": "false"}
