"""Settings by which a Debezium connector hides a gap in what it read instead of failing (INV 5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from airflow_cdc.connectors.debezium.names import by_todays_names, is_true
from airflow_cdc.connectors.debezium.plugin_names import POSTGRES

_AUTOCREATE: Final = "publication.autocreate.mode"
_HEALS_ITSELF: Final[tuple[tuple[str, Callable[[str], bool]], ...]] = (
    (r"errors\.tolerance", lambda v: v == "all"),
    (r"snapshot\.mode", lambda v: v in {"when_needed", "always"}),
    (r".*\.handling\.mode", lambda v: v in {"warn", "skip", "ignore"}),
    (r"slot\.drop\.on\.stop", is_true),
    # PostgreSQL: trust_offset moves the slot past what was not read, trust_slot the offset, and no error is raised
    (r"offset\.mismatch\.strategy", lambda v: v not in {"", "no_validation"}),
)


def healing_settings(cfg: Mapping[str, str]) -> tuple[str, ...]:
    """Settings with which a connector hides a gap instead of failing (INV 5), as `name=value`."""
    effective = by_todays_names(cfg).known
    hits = (
        f"{k}={v}"
        for k, v in effective.items()
        for pattern, bad in _HEALS_ITSELF
        if re.fullmatch(pattern, k) and bad(v.strip())
    )
    return tuple(sorted(hits))


def remakes_publication(config: Mapping[str, str]) -> str:
    """The setting with which a PostgreSQL connector makes a lost publication again, as `name=value`; "" if it does not.

    The rows between the loss and the start never come. While the publication exists and covers the tables nothing is lost.
    """
    cfg = by_todays_names(config).known
    reads_it = cfg.get("connector.class", "").strip() == POSTGRES and cfg.get("plugin.name", "pgoutput") == "pgoutput"
    mode = cfg.get(_AUTOCREATE, "all_tables").strip().lower()
    return f"{_AUTOCREATE}={mode}" if reads_it and mode != "disabled" else ""


def publication_of(config: Mapping[str, str]) -> str:
    """The name of a PostgreSQL connector's publication; "" where it can't be seen."""
    settings = by_todays_names(config)
    return "" if "publication.name" in settings.unseen else settings.known.get("publication.name", "dbz_publication")
