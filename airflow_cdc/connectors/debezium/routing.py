"""Where a connector's routers send the events of a table, and what they add to its keys.

A transform that is neither a router nor harmless is refused by name, because its effect on events is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

from airflow_cdc.connectors.debezium.flattening import FLATTENS, FlattenedForm, flattened_form, keeping_deletes
from airflow_cdc.connectors.debezium.names import is_false, is_true, split_list
from airflow_cdc.connectors.patterns import SlowPatternError, fits
from airflow_cdc.core.errors import ConfigError

_BY_LOGICAL_TABLE = "io.debezium.transforms.ByLogicalTableRouter"
_TO_LOGICAL_TOPIC = "io.debezium.transforms.ToLogicalTopicRouter"
_REGEX_ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"
_BY_FIELD = "route.by.field"
_TOPIC_PREDICATE = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"

# Transforms that touch headers or other topics only: every change event passes unchanged.
_HARMLESS_TRANSFORMS = frozenset(
    {
        "io.debezium.transforms.ExtractChangedRecordState",
        "io.debezium.transforms.openlineage.OpenLineage",  # it tells of datasets, and returns each record as it is
        "org.apache.kafka.connect.transforms.DropHeaders",
        "org.apache.kafka.connect.transforms.InsertHeader",
    }
)

# within a class, Java reads a bracket as another class and && as what two have in common; Python reads both as characters
_JAVA_SET: Final = re.compile(r"(?<!\\)(?:\\\\)*\[\^?\]?(?:[^\]\[\\&]|\\.|&(?!&))*(?:\[|&&)")
# letters, digits and what is no operator between them; a dot, with or without a backslash, matches a dot
_PLAIN_NAME: Final = re.compile(r"(?:[A-Za-z0-9_-]|\\?\.)+")

# Transforms that change what an event says, or leave events out, and send the rest to the topic that it had.
_KEEPS_TOPICS: Final = frozenset(
    {
        FLATTENS,
        "io.debezium.transforms.Filter",
        "io.debezium.transforms.GeometryFormatTransformer",
        "io.debezium.transforms.HeaderToValue",
        "io.debezium.transforms.SchemaChangeEventFilter",
        "io.debezium.transforms.SwapGeometryCoordinates",
        "io.debezium.transforms.TimezoneConverter",
        "io.debezium.transforms.VectorToJsonConverter",
        "io.debezium.transforms.partitions.PartitionRouting",
        *(
            f"org.apache.kafka.connect.transforms.{name}"
            for name in [
                "Cast",
                "ExtractField",
                "Filter",
                "Flatten",
                "HeaderFrom",
                "HoistField",
                "InsertField",
                "MaskField",
                "ReplaceField",
                "SetSchemaMetadata",
                "TimestampConverter",
                "ValueToKey",
            ]
        ),
    }
)

_TRANSFORM_REASONS = {
    "io.debezium.transforms.outbox.EventRouter": "its events are messages of an outbox, not the rows of a table",
    "io.debezium.transforms.Filter": "it leaves out events that we cannot know of",
    "io.debezium.transforms.ContentBasedRouter": "it routes by a script over the content",
    "io.debezium.transforms.SchemaChangeEventFilter": "it keeps DDL that changes rows out of the topic that tells of it",
    "io.debezium.transforms.partitions.PartitionRouting": "it lets changes of one key land in several partitions",
    "org.apache.kafka.connect.transforms.Filter": "it leaves out events that we cannot know of",
    "org.apache.kafka.connect.transforms.TimestampRouter": "it routes one table to a topic per day",
}
# what ends a refusal of a regular expression
_OTHERWISE: Final = "Write it as the names that it stands for, each with a backslash before the dot"


@dataclass(frozen=True, slots=True)
class KeyMark:
    """A field that a router adds to the message key, and its value for one table."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Route:
    """One routing transform: topics that `pattern` matches wholly are renamed, and their keys marked."""

    name: str
    pattern: str
    replacement: str
    only: tuple[str, bool] | None = None  # (topic pattern, negated) of its predicate
    mark_field: str = ""
    mark_pattern: str = ""
    mark_replacement: str = ""

    def applies(self, topic: str) -> bool:
        if self.only is not None and full_match(self.only[0], topic) is self.only[1]:
            return False
        return full_match(self.pattern, topic)

    def renamed(self, topic: str) -> str:
        return _replace_first(self.pattern, self.replacement, topic) or topic

    def mark(self, topic: str) -> KeyMark | None:
        if not self.mark_field:
            return None
        value = topic
        if self.mark_pattern and full_match(self.mark_pattern, topic):
            value = _replace_first(self.mark_pattern, self.mark_replacement, topic)
        return KeyMark(self.mark_field, value)


@dataclass(frozen=True, slots=True)
class Transforms:
    """The transforms of a connector, in order.

    Attributes:
        routes: those that rename topics in a way that can be derived.
        refusals: why rows cannot be taken from events that they have changed.
        renames: one that sends events to topics whose names cannot be derived; None if there is none.
        flattened: what each transform that flattens events leaves of them.
    """

    routes: tuple[Route, ...] = ()
    refusals: tuple[ConfigError, ...] = ()
    renames: ConfigError | None = None
    flattened: tuple[FlattenedForm, ...] = ()


def read_transforms(cfg: Mapping[str, str], *, old: bool = False) -> Transforms:
    """The transforms of a connector. One that is no router, does not flatten and is not harmless is refused, whatever it does.

    `old`: its settings have the names of Debezium 1.x.
    """
    routes: list[Route] = []
    flattened: list[FlattenedForm] = []
    refusals: list[ConfigError] = []
    renames: list[ConfigError] = []
    for name in split_list(cfg.get("transforms", "")):
        kind = cfg.get(f"transforms.{name}.type", "").strip()
        if kind in _HARMLESS_TRANSFORMS:
            continue
        try:
            if kind == FLATTENS:
                flattened.append(_flattened(cfg, name, len(routes), old=old))
                refusals += _flattening_faults(cfg, flattened, old=old)
            else:
                routes.append(_router(kind, name)(cfg, name))
        except ConfigError as error:
            refusals.append(error)
            if kind.partition("$")[0] not in _KEEPS_TOPICS:
                renames.append(error)
        if cfg.get(f"transforms.{name}.{_BY_FIELD}") and kind == FLATTENS:
            renames.append(refusals[-1])
    return Transforms(tuple(routes), tuple(refusals), renames[0] if renames else None, tuple(flattened))


def _flattened(cfg: Mapping[str, str], name: str, behind: int, *, old: bool) -> FlattenedForm:
    """Raises ConfigError for a predicate that cannot be followed."""
    own = f"transforms.{name}."
    options = {key.removeprefix(own): value for key, value in cfg.items() if key.startswith(own)}
    return flattened_form(name, options, old=old, only=_predicate(cfg, name), behind=behind)


def _flattening_faults(
    cfg: Mapping[str, str], flattened: Sequence[FlattenedForm], *, old: bool
) -> Iterator[ConfigError]:
    """Why no rows can be taken from what the last of these transforms leaves of events."""
    form = flattened[-1]
    own = f"transforms.{form.name}."
    if form.loses_deletes:
        keeps = f"Set {own}{keeping_deletes(old=old)}"
        yield _by(form.setting or f"{own}type={FLATTENS}", "no delete reaches the topics", keeps)
    for setting in form.loose:
        yield _by(setting, "columns are left out of rows")
    if len(flattened) > 1:
        yield refusal(f"{own}type", FLATTENS, "an event is flattened twice", _without(form.name))
    if by := cfg.get(own + _BY_FIELD, "").strip():
        yield refusal(own + _BY_FIELD, by, "a column's value decides which topic a row goes to")


def _by(setting: str, why: str, do: str = "") -> ConfigError:
    """`setting` as `name=value`."""
    name, _, value = setting.partition("=")
    return refusal(name, value, why, do)


def _router(kind: str, name: str) -> Callable[[Mapping[str, str], str], Route]:
    if kind not in _ROUTERS:
        why = _TRANSFORM_REASONS.get(kind.partition("$")[0], "what it does to events cannot be followed")
        refuse(f"transforms.{name}.type", kind or "nothing", why, _without(name))
    return _ROUTERS[kind]


def _regex_router(cfg: Mapping[str, str], name: str) -> Route:
    option = _options(cfg, name)
    return _route(name, option("regex"), option("replacement"), _predicate(cfg, name))


def _by_logical_table(cfg: Mapping[str, str], name: str) -> Route:
    return _logical(cfg, name, "__dbz__physicalTableIdentifier")


def _to_logical_topic(cfg: Mapping[str, str], name: str) -> Route:
    return _logical(cfg, name, "__dbz__sourceIdentifier")


def _logical(cfg: Mapping[str, str], name: str, default_field: str) -> Route:
    option = _options(cfg, name)
    unique = not is_false(option("key.enforce.uniqueness") or "true")
    return _route(
        name,
        option("topic.regex"),
        option("topic.replacement"),
        _predicate(cfg, name),
        mark=(
            option("key.field.name") or default_field if unique else "",
            option("key.field.regex"),
            option("key.field.replacement"),
        ),
    )


_ROUTERS: dict[str, Callable[[Mapping[str, str], str], Route]] = {
    _REGEX_ROUTER: _regex_router,
    _BY_LOGICAL_TABLE: _by_logical_table,
    _TO_LOGICAL_TOPIC: _to_logical_topic,
}


def _route(
    name: str, pattern: str, replacement: str, only: tuple[str, bool] | None, mark: tuple[str, str, str] = ("", "", "")
) -> Route:
    if not pattern or not replacement:
        refuse(
            f"transforms.{name}", "no regex or no replacement", "where it routes to cannot be derived", _without(name)
        )
    return Route(name, _python_regex(pattern), replacement, only, mark[0], _python_regex(mark[1]), mark[2])


def _options(cfg: Mapping[str, str], name: str) -> Callable[[str], str]:
    return lambda option: cfg.get(f"transforms.{name}.{option}", "").strip()


def _predicate(cfg: Mapping[str, str], name: str) -> tuple[str, bool] | None:
    predicate = cfg.get(f"transforms.{name}.predicate", "").strip()
    if not predicate:
        return None
    kind = cfg.get(f"predicates.{predicate}.type", "")
    if kind != _TOPIC_PREDICATE:
        why = f"which events {name} changes cannot be derived"
        refuse(f"predicates.{predicate}.type", kind or "nothing", why, _without(name))
    negated = is_true(cfg.get(f"transforms.{name}.negate", "false"))
    return _python_regex(cfg.get(f"predicates.{predicate}.pattern", "")), negated


def is_listed(value: str, name: str) -> bool:
    """Whether a list of regular expressions, such as that of table.include.list, has one for the whole of `name`.

    Most lists are of names alone: one of 2,000 tables is looked up, not tried 2,000 times for each of them.
    """
    patterns, names = _patterns(value)
    return (name.isascii() and name.lower() in names) or any(full_match(p, name, ignore_case=True) for p in patterns)


@lru_cache(maxsize=64)
def _patterns(value: str) -> tuple[Sequence[str], frozenset[str]]:
    """The patterns of a list, and the names that those of them match which are hardly more than a name."""
    patterns = split_list(value)
    return patterns, frozenset(p.replace("\\", "").lower() for p in patterns if _PLAIN_NAME.fullmatch(p))


def full_match(pattern: str, text: str, *, ignore_case: bool = False) -> bool:
    try:
        return fits(_compiled(pattern, ignore_case), text)
    except SlowPatternError as error:
        refuse("a regular expression", pattern, f"it cannot be followed here: {error}", _OTHERWISE)


@lru_cache(maxsize=20_000)
def _compiled(pattern: str, ignore_case: bool) -> re.Pattern[str]:
    """Compiled once: Python itself keeps 512, and a list of more tables would be compiled anew for each table."""
    if _JAVA_SET.search(pattern):
        refuse(
            "a regular expression",
            pattern,
            "a set within a set ([a[b]], [a&&b]) means something else in Java",
            _OTHERWISE,
        )
    try:
        return re.compile(_python_regex(pattern), re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError) as error:
        refuse("a regular expression", pattern, f"it cannot be followed here: {error}", _OTHERWISE)


def _python_regex(pattern: str) -> str:
    """Java writes a named group as (?<name>…); the rest that these settings use is common to both."""
    return re.sub(r"\(\?<(?![=!])", "(?P<", pattern)


def _replace_first(pattern: str, replacement: str, text: str) -> str:
    return re.sub(pattern, lambda match: _expand(replacement, match), text, count=1)


def _expand(replacement: str, match: re.Match[str]) -> str:
    """Java's replacement text: $1, ${name}, and a backslash before a literal character."""

    def piece(token: re.Match[str]) -> str:
        if token["literal"]:
            return token["literal"]
        group = token["name"] or token["number"]
        # "$12" is group 12 only if the pattern has that many groups; otherwise group 1 and a "2"
        digits = len(group)
        while group.isdigit() and digits > 1 and int(group[:digits]) > (match.re.groups or 0):
            digits -= 1
        tail = group[digits:]
        head = group[:digits]
        return (match[int(head)] if head.isdigit() else match[head] or "") + tail

    try:
        return re.sub(r"\\(?P<literal>.)|\$\{(?P<name>\w+)\}|\$(?P<number>[0-9]{1,9})", piece, replacement)
    except (IndexError, TypeError) as error:
        why = f"it names a group that its pattern does not have: {error}"
        refuse("a replacement", replacement, why, "Give the pattern that group, or name another one")


def refusal(setting: str, value: str, why: str, do: str = "") -> ConfigError:
    """The error about a setting that cannot be followed. `do`: what ends it, where that is not to remove the setting (INV 43)."""
    return ConfigError(
        f"{setting} is {value}: {why}",
        where="the connector's configuration",
        todo=f"{do or f'Remove {setting}'}, or keep these tables out of the pipeline.",
    )


def refuse(setting: str, value: str, why: str, do: str = "") -> NoReturn:
    """Raise the error about a setting that cannot be followed."""
    raise refusal(setting, value, why, do)


def _without(transform: str) -> str:
    return f"Remove {transform} from transforms"
