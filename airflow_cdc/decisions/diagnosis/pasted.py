"""What a pasted log says went wrong: the newest failure leads, and what was over before it is mentioned.

A log is a sequence of incidents: one ends where the connector reads again, or where nothing failed for some minutes.
Within an incident the error that ended the task counts more than other errors, these more than retried ones, and these
more than warnings. Worked case: at 02:11 a WARN says that a slot is gone, at 02:12 the connector streams, at 09:40 the
task is killed because a password was refused. The password leads; the slot is mentioned as over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Final

from airflow_cdc.core.error_texts import Explanation, KnownText
from airflow_cdc.core.secrets import mask_text
from airflow_cdc.core.text import root_cause, shorten
from airflow_cdc.decisions.diagnosis.log_lines import Entry, Weight, entries
from airflow_cdc.decisions.diagnosis.screen import Screen

UNNAMED: Final = "UNKNOWN"
FAILED: Final = "CONNECTOR_FAILED"
TRANSIENT: Final = "CONNECTOR_FAILED_TRANSIENT"
_GENERAL: Final = frozenset({UNNAMED, FAILED, TRANSIENT})
_APART: Final = timedelta(minutes=5)
_SHOWN: Final = 3
_THROWN: Final = re.compile(r"^[\w.$]+(?:Exception|Error)\b", re.MULTILINE)
_RETRIED: Final = re.compile(
    r"going to restart connector|\bwill (?:attempt )?(?:to )?(?:be )?retr|\bretrying\b|\bbacking off\b|"
    r"retriable ?exception|re-attempt|restart automatically|\battempt \d+ (?:out )?of \d+",
    re.IGNORECASE,
)
# said of a task that ended, by those that only pass an error on: the reason is a line before it, if it has no cause below it
_HOLLOW: Final = re.compile(
    r"exception from producer send callback|exception occurred in the change event producer|engine failed to start|"
    r"error while trying to run connector class|task (threw an uncaught|is being killed)|"
    r"one or more fetchers have encountered|recovery is suppressed by|connector has been (killed|stopped)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Voice:
    """How a connector's log reads, as regular expressions: its own packages, and its words about the end of a failure.

    A voice of a lower rank is named before one of a higher rank, whose packages its log contains, too.
    """

    name: str
    rank: int
    packages: str
    healed: str  # it reads, or reads again
    ended: str = ""  # a failure ended the task

    @cached_property
    def _packages(self) -> re.Pattern[str]:
        return re.compile(self.packages)

    def speaks(self, text: str) -> bool:
        """Whether this connector wrote the text, by the packages that it names."""
        return self._packages.search(text) is not None


@dataclass(frozen=True, slots=True)
class Finding:
    """What a pasted text says.

    Attributes:
        leads: the newest failure; UNKNOWN if no known message is in the text.
        engine: who wrote the text, by its own packages; "" if it names none.
        over: other failures of the text, the newest first, that were over before the one that leads.
        beside: other problems that the text names around the one that leads.
        healed: whether the text shows that the connector read again after the failure.
    """

    leads: Explanation
    engine: str = ""
    over: tuple[Explanation, ...] = ()
    beside: tuple[Explanation, ...] = ()
    healed: bool = False


@dataclass(frozen=True, slots=True)
class _Named:
    """An entry, and the problem that it names."""

    entry: Entry
    named: Explanation
    index: int

    @property
    def standing(self) -> tuple[int, bool, int]:
        """The greatest one of an incident leads it: of the errors that ended a task the newest, else the most exact."""
        exact = self.entry.weight is not Weight.ENDED and self.named.code not in _GENERAL
        return self.entry.weight, exact, self.index


def explain(texts: Iterable[KnownText], voices: Iterable[Voice], text: str) -> Finding:
    """The problem that a pasted text names, by its text alone; UNKNOWN if it names none that is known."""
    rows, voices = tuple(texts), sorted(voices, key=lambda voice: voice.rank)
    ended = re.compile("|".join(voice.ended for voice in voices if voice.ended), re.IGNORECASE)
    joined = tuple(_joined(entries(text), ended))
    incidents, healed = _incidents(joined, rows, voices)
    if not incidents:
        unnamed = Explanation(UNNAMED, "no known error message is in this text", "")
        return Finding(_unlisted(joined, voices) or unnamed, _engine(voices, text))
    last = incidents[-1]
    leads = max(last, key=lambda one: one.standing)
    exact = _exact(leads.named, last, rows)
    codes = {exact.code}
    beside = tuple(_others(last, codes))
    over = tuple(_others([max(one, key=lambda named: named.standing) for one in incidents[:-1]], codes))
    engine = _engine(voices, leads.entry.text) or _engine(voices, text)
    return Finding(exact, engine, over[:_SHOWN], beside[:_SHOWN], healed)


def _joined(all_entries: Iterable[Entry], ended: re.Pattern[str]) -> Iterator[Entry]:
    """A line that says that a task ended has weight of its own, and the trace below it is its, whatever its level is."""
    ends: Entry | None = None
    for entry in all_entries:
        if ends is not None and entry.bare:
            ends = replace(ends, text=f"{ends.text}\n{entry.text}")
            continue
        if ends is not None:
            yield ends
        ends = replace(entry, weight=Weight.ENDED) if ended.search(entry.text) else None
        if ends is None:
            yield entry
    if ends is not None:
        yield ends


def _incidents(
    all_entries: Sequence[Entry], rows: Sequence[KnownText], voices: Sequence[Voice]
) -> tuple[list[list[_Named]], bool]:
    """What failed, incident by incident, and whether the connector read again after the last one."""
    over = re.compile("|".join(voice.healed for voice in voices), re.IGNORECASE)
    every, quiet = Screen(rows), Screen(row for row in rows if row.code not in _GENERAL)
    incidents: list[list[_Named]] = [[]]
    healed = False
    for index, entry in enumerate(all_entries):
        if entry.weight is Weight.QUIET and over.search(entry.text):
            incidents.append([])
            healed = True
            continue
        weighed = _weighed(entry, all_entries[index + 1 : index + 3])
        named = _named(weighed, quiet if weighed.weight is Weight.QUIET else every)
        if named is None:
            continue
        if weighed.weight is Weight.ENDED and not named.rank and _HOLLOW.search(named.line):
            weighed = replace(weighed, weight=Weight.RETRIED)
        if incidents[-1] and _apart(incidents[-1][-1].entry, entry):
            incidents.append([])
        incidents[-1].append(_Named(weighed, named, index))
        healed = healed and weighed.weight < Weight.WARN
    return [one for one in incidents if any(item.entry.weight for item in one)] or [
        one for one in incidents if one
    ], healed


def _weighed(entry: Entry, following: Sequence[Entry]) -> Entry:
    """The entry; an error that its own words, or a warning right after it, call retried weighs less."""
    retried = entry.weight is Weight.ERROR and (
        _RETRIED.search(entry.text) or any(one.weight is Weight.WARN and _RETRIED.search(one.text) for one in following)
    )
    return replace(entry, weight=Weight.RETRIED) if retried else entry


def _named(entry: Entry, screen: Screen) -> Explanation | None:
    """The problem that an entry names. An INFO line names no failure of a connector: it lists settings and retries."""
    named = screen.first(entry.text)
    if named is None and entry.weight is Weight.ENDED:
        return Explanation(
            FAILED, "the task ended with an error that is in no list of ours: find its cause", _cause(entry.text)
        )
    return named


def _unlisted(all_entries: Iterable[Entry], voices: Sequence[Voice]) -> Explanation | None:
    """The newest exception that a connector's own code logged as an error, where the text names nothing that is known."""
    thrown = [
        entry.text
        for entry in all_entries
        if entry.weight is Weight.ERROR and _THROWN.search(entry.text) and _engine(voices, entry.text)
    ]
    says = (
        "an error of the connector that is in no list of ours: find its cause, if its task is FAILED or nothing moves"
    )
    return Explanation(FAILED, says, _cause(thrown[-1])) if thrown else None


def _cause(text: str) -> str:
    """The cause of an exception, without what stands before it, which only says that a task ended."""
    thrown = _THROWN.search(text)
    return shorten(mask_text(root_cause(text[thrown.start() :] if thrown else text)), 300)


def _exact(named: Explanation, incident: Iterable[_Named], rows: Sequence[KnownText]) -> Explanation:
    """The failure, or what a line of the same incident says of it more exactly."""
    clues = Screen(row for row in rows if named.code in row.clue_for and row.rank < named.rank)
    exact = (clues.first(one.entry.text) for one in incident)
    return next((clue for clue in exact if clue is not None), named)


def _others(named: Sequence[_Named], codes: set[str]) -> Iterable[Explanation]:
    """The other problems among these, the newest first, each code once; those that only say that it failed are left out."""
    for one in reversed(named):
        if one.named.code not in codes and one.named.code != FAILED:
            codes.add(one.named.code)
            yield one.named


def _apart(earlier: Entry, later: Entry) -> bool:
    return earlier.at is not None and later.at is not None and later.at - earlier.at > _APART


def _engine(voices: Iterable[Voice], text: str) -> str:
    return next((voice.name for voice in voices if voice.speaks(text)), "")
