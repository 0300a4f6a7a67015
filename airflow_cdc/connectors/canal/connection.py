"""The form of Airflow's connection type `canal`."""

from __future__ import annotations

from typing import Any, Final

FORM: Final[dict[str, Any]] = {
    "connection-type": "canal",
    "hook-class-name": "airflow_cdc.hooks.canal.CanalHook",
    "hook-name": "Canal",
    "ui-field-behaviour": {
        "hidden-fields": ["schema", "port", "extra"],
        "relabeling": {"host": "ZooKeeper's servers, or the machine that Canal runs on", "login": "ZooKeeper user"},
        "placeholders": {"host": "zk1.example:2181,zk2.example:2181"},
    },
    "conn-fields": {},
}
