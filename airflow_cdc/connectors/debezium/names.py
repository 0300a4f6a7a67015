"""A connector's settings by the names of today's Debezium and the whole names of classes, whatever they are called.

Debezium 1.x has other names (`database.server.name`, `table.whitelist`, `database.history.*`). From 2.0 on these count
for nothing, so they are read only where the configuration has no `topic.prefix`. A value such as `${file:/x:y}` belongs
to a provider on Connect's own machine. Connect's REST interface shows the placeholder, so the value is unknown here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_cdc.connectors.debezium.plugin_names import by_whole_names
from airflow_cdc.core.errors import ConfigError

_PREFIX: Final = "topic.prefix"
# Debezium Server's own name for what it writes to: among a connector's settings where that is not Kafka
SINK: Final = "debezium.sink.type"
_SERVER_NAME: Final = "database.server.name"
# `${provider:path:key}` or `${provider:key}`; `${routedByValue}` and Java's `${name}` have no colon
_PLACEHOLDER: Final = re.compile(r"\$\{[^}:]+:[^}]*\}")
# (pattern of a name of 1.x, today's name), tried in this order
_RENAMED: Final = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"database\.server\.name", _PREFIX),
        (r"database\.history", "schema.history.internal"),
        (r"database\.history\.(.+)", r"schema.history.internal.\1"),
        (r"(table|schema|database|column)\.whitelist", r"\1.include.list"),
        (r"(table|schema|database|column)\.blacklist", r"\1.exclude.list"),
        (r"heartbeat\.topics\.prefix", "topic.heartbeat.prefix"),
        (r"event\.deserialization\.failure\.handling\.mode", "event.processing.failure.handling.mode"),
        (r"toasted\.value\.placeholder", "unavailable.value.placeholder"),
        (r"slot\.drop_on_stop", "slot.drop.on.stop"),
        (r"transaction\.topic", "topic.transaction"),
    )
)
# what a setting of 1.x is where it is not set, if that is another value than today's
_DEFAULTS_OF_1X: Final = {"skipped.operations": "none"}
# a value of an older version → today's; a setting's old values are still accepted beside the new ones for a while
_SNAPSHOT_MODES: Final = {"schema_only": "no_data", "schema_only_recovery": "recovery"}
SNAPSHOT_MODE: Final = "snapshot.mode"
# the mode that reads all definitions again is called `recovery` since then; 1.9.7 and 2.5.4 refuse that word, 3.6.1 the older
_NEW_MODES_SINCE: Final = (2, 6)
_RELEASE: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")
# settings of logins, of Connect's own clients and of its way to a registry: nothing that is concluded here depends on them
_NOT_ASKED: Final = re.compile(
    r"(key|value)\.converter\.(schema\.registry\.|apicurio\.registry\.)?(url|(basic\.)?auth\..*)|"
    r"(database|driver)\..*|.*\.(consumer|producer)\..*|(consumer|producer|admin)\..*|.*(password|secret|bootstrap).*"
)


@dataclass(frozen=True, slots=True)
class Named:
    """Settings by today's names.

    Attributes:
        known: name → value, for values that can be seen.
        unseen: name → placeholder, for those that only Connect's own machine can resolve.
        old: the names are those of Debezium 1.x.
    """

    known: Mapping[str, str]
    unseen: Mapping[str, str] = field(default_factory=dict)
    old: bool = False

    @property
    def unseen_here(self) -> Mapping[str, str]:
        """The unseen settings on which names, positions or rows may depend: not those of logins."""
        return {name: value for name, value in self.unseen.items() if not _NOT_ASKED.fullmatch(name)}


def by_todays_names(config: Mapping[str, str]) -> Named:
    """The settings of a configuration as Connect's REST interface, or a properties file, shows it."""
    written = by_whole_names({name: str(value) for name, value in config.items() if value is not None})
    old = not written.get(_PREFIX, "").strip() and bool(written.get(_SERVER_NAME, "").strip())
    if old:
        renamed = {_todays(name): value for name, value in written.items()}
        # a name of today counts before an old one that means the same
        written = {**_DEFAULTS_OF_1X, **renamed, **{n: v for n, v in written.items() if _todays(n) == n}}
    if (mode := written.get(SNAPSHOT_MODE, "").strip()) in _SNAPSHOT_MODES:
        written[SNAPSHOT_MODE] = _SNAPSHOT_MODES[mode]
    unseen = {name: value for name, value in written.items() if _PLACEHOLDER.search(value)}
    known = {name: value for name, value in written.items() if name not in unseen}
    return Named(known, unseen, old)


def server_of(config: Mapping[str, str]) -> str:
    """The name under which a connector stores its offset; "" where it has none, or where it can't be seen."""
    return by_todays_names(config).known.get(_PREFIX, "").strip()


def rebuilding_mode(config: Mapping[str, str], version: str) -> str:
    """The snapshot mode that reads all table definitions again, as a connector of this version calls it.

    Where the version cannot be seen, its settings tell: those with names of 1.x, or with a mode by its old name.
    """
    release = _RELEASE.match(version)
    if release is not None:
        older = tuple(map(int, release.groups())) < _NEW_MODES_SINCE
    else:
        older = by_todays_names(config).old or config.get(SNAPSHOT_MODE, "").strip() in _SNAPSHOT_MODES
    return "schema_only_recovery" if older else "recovery"


def unseen_error(name: str, value: str) -> ConfigError:
    """The error about a setting whose value is a placeholder."""
    return ConfigError(
        f"{name} is {value}, which only the connector's own machine can resolve: its value is unknown here",
        where="the connector's configuration",
        todo="Write the value itself into the connector's configuration; only secrets need a placeholder.",
    )


def _todays(name: str) -> str:
    for pattern, new in _RENAMED:
        if match := pattern.fullmatch(name):
            return match.expand(new)
    return name


def split_list(value: str) -> Sequence[str]:
    """A setting that is a comma-separated list; a comma inside a regular expression is written with a backslash before it."""
    return [part.replace("\\,", ",").strip() for part in re.split(r"(?<!\\),", value) if part.strip()]


def is_false(value: str) -> bool:
    """Whether a setting says `false`; anything else may be Connect's default."""
    return value.strip().lower() == "false"


def is_true(value: str) -> bool:
    """Whether a setting says `true`."""
    return value.strip().lower() == "true"
