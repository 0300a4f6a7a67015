"""Judging a scanned table key by key (with a key), or row image by row image (without one)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from airflow_cdc.core.errors import VerificationError
from airflow_cdc.core.position import Covered, Watermark
from airflow_cdc.decisions.compare.canonical import outside_hash
from airflow_cdc.decisions.compare.changelog import Event, Tail
from airflow_cdc.decisions.compare.leaves import Leaf, compare, compare_multisets, compare_rows, leaf_of
from airflow_cdc.decisions.compare.part import WHOLE
from airflow_cdc.decisions.compare.verdict import (
    KEYS_HELD,
    STRANGE,
    UNKNOWN,
    UNPLACED,
    Image,
    ImageCount,
    KeyEvidence,
    KeyLog,
    KeyVerdict,
    Rows,
    classify_count,
    classify_key,
    leaf_caveat,
    rows_held,
    without,
)
from airflow_cdc.spark_apps.compare.flight import Flight, Flights, TakenOut, flights
from airflow_cdc.spark_apps.compare.scan import (
    Digests,
    Judgement,
    Outcome,
    Reached,
    Scanned,
    Subject,
    leaf_groups,
    row_hashes,
    rows_in,
    taken_out,
)
from airflow_cdc.spark_apps.compare.tail import read_tail
from airflow_cdc.spark_apps.events import offsets_in
from airflow_cdc.spark_apps.ports import SourceView

# How many keys are settled one by one; differences beyond that are counted as first seen.
MAX_SUSPECTS = 10_000
# How many row images of a table without a key are settled one by one (all in memory), give or take a group of leaves.
MAX_IMAGES = 100_000
# The most changes of such a table during a comparison: copies are counted one by one, over all changes at once.
MAX_CHANGES = 300_000
NO_ROWS = Leaf(0, 0, 0)
_KINDS = {KeyVerdict.MISSING: "missing", KeyVerdict.GHOST: "ghosts", KeyVerdict.DIFFERENT: "different"}
WRONG = tuple(_KINDS)


def judge(scanned: Scanned, now: Reached) -> Judgement:
    """Take out keys in flight, compare the leaves, find the suspects."""
    return (judge_images if scanned.subject.table.keyless else judge_keys)(scanned, now)


def tail_of(outcome: Outcome, now: Reached, *, placed: bool = False) -> Tail:
    """The table's records around the compared ends, up to `now`; the doubts they leave are noted in the outcome.

    `placed`: see Tail.caveats.
    """
    subject, topic = outcome.subject, outcome.subject.topic
    if topic is None:
        return Tail()
    tail = read_tail(subject.sink.spark, topic, subject.since(now), subject.begin[1])
    outcome.add_caveats(*tail.caveats(placed=placed))
    return tail


def _too_busy(outcome: Outcome, now: Reached) -> bool:
    """Whether a table without a key changed more often than a driver should hold; the outcome then says so."""
    count = offsets_in(outcome.subject.since(now))
    if count > MAX_CHANGES:
        outcome.add_caveats(
            f"{count} events came while the table, which has no key, was compared, and no more than {MAX_CHANGES} are"
            " judged row by row: compare it while fewer rows change, or give it a primary key"
        )
    return count > MAX_CHANGES


def shown_by(subject: Subject, view: SourceView) -> Covered | None:
    """The changes that the view shows; None if unknown."""
    if subject.topic is None or view.position is None:
        return None
    return subject.topic.log.covered(view.position)


def count_leaves(outcome: Outcome, scanned: Scanned, in_flight: int) -> None:
    """Note the leaves of both sides, the rows of the sink, and how many keys are in flight."""
    outcome.sink_rows = rows_in(scanned.sink) if scanned.subject.part.whole else scanned.totals[1]
    leaves, unequal = sorted(scanned.source.keys() | scanned.sink.keys()), frozenset(scanned.unequal)
    outcome.leaves = len(leaves)
    outcome.leaves_rechecked = len(unequal)
    outcome.leaf_map = "".join("~" if leaf in unequal else "=" for leaf in leaves)
    outcome.in_flight = in_flight


# --- with a key ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class KeyJudgement:
    """A table with a key: `suspects` are keys not decided yet, which no count of the outcome includes.

    `placed`: each view says which changes it shows.
    """

    outcome: Outcome
    placed: bool = False
    suspects: dict[str, KeyEvidence] = field(default_factory=dict)

    @property
    def pending(self) -> bool:
        return bool(self.suspects)

    def read_again(self, view: SourceView) -> None:
        rows, shown = view.images(self.suspects), shown_by(self.outcome.subject, view)
        for key, evidence in self.suspects.items():
            reads = (*evidence.reads, _one(rows.get(key)))
            self.suspects[key] = replace(evidence, reads=reads, shown=_added(evidence, shown))

    def logs(self, flight: Flight) -> dict[str, KeyLog]:
        """The logs of a flight's keys. Doubts are noted in the outcome; changes that are out of order have no place."""
        self.outcome.add_caveats(*flight.caveats(placed=self.placed))
        self.placed = self.placed and not flight.caveats(placed=True)
        return flight.tail.key_logs(self.outcome.subject.ends)

    def views(self, view: SourceView) -> tuple[Covered, ...]:
        """The changes that the view shows, if views say so; else ()."""
        shown = shown_by(self.outcome.subject, view) if self.placed else None
        return () if shown is None else (shown,)

    def decide(self, now: Reached) -> None:
        with flights(self.outcome.subject, now) as events:
            logs = _logs_of(self, events, self.suspects)
        for key, evidence in list(self.suspects.items()):
            shown = evidence.shown if self.placed else ()
            self.suspects[key] = replace(evidence, log=logs.get(key), shown=shown)
            self.count(key)

    def count(self, key: str) -> None:
        """Count the key if the evidence is enough to decide it."""
        evidence = self.suspects[key]
        verdict = classify_key(evidence)
        if verdict is KeyVerdict.UNSETTLED:
            return
        del self.suspects[key]
        self.outcome.tally.add(verdict, key)
        self.outcome.source_rows += rows_held(verdict, evidence)
        if evidence.contradicted and verdict is KeyVerdict.DIFFERENT:
            self.outcome.add_caveats(STRANGE)

    def give_up(self, after: int = 0) -> None:
        """Count all suspects as unsettled, or those beyond the first `after`."""
        for key in list(self.suspects)[after:]:
            evidence = self.suspects.pop(key)
            self.outcome.tally.add(KeyVerdict.UNSETTLED, key)
            self.outcome.source_rows += rows_held(KeyVerdict.UNSETTLED, evidence)
            if evidence.strange:
                self.outcome.add_caveats(STRANGE)
            if evidence.unplaced:
                self.outcome.add_caveats(UNPLACED)


def _added(evidence: KeyEvidence, shown: Covered | None) -> tuple[Covered, ...]:
    """The changes that each read's view shows, with one more read added; () where one of the views does not say."""
    known = shown is not None and len(evidence.shown) == len(evidence.reads)
    return (*evidence.shown, shown) if known and shown is not None else ()


def judge_keys(scanned: Scanned, now: Reached) -> KeyJudgement:
    """Decide keys with an event between sink and view by that event; compare the others' leaves and drill into them."""
    with flights(scanned.subject, now) as events:
        return _judge_keys(scanned, events)


def _judge_keys(scanned: Scanned, events: Flights) -> KeyJudgement:
    subject, digests, shown = scanned.subject, scanned.digests, shown_by(scanned.subject, scanned.view)
    judgement, taken = KeyJudgement(Outcome(subject), shown is not None), TakenOut(subject.table, scanned.scheme)
    outcome = judgement.outcome
    for flight in events.each():
        digests = _judge_flight(scanned, judgement, flight, taken, digests)
        del flight  # before the next one is read
    count_leaves(outcome, scanned, taken.count)
    outcome.source_rows += rows_in(digests[0]) if subject.part.whole else scanned.totals[0]
    drilled = drill_keys(scanned, *digests, taken.within)
    if drilled.unexplained:
        outcome.add_caveats(leaf_caveat(drilled.unexplained))
    for verdict, count in drilled.beyond.items():
        outcome.tally.count(verdict, count)
    if len(scanned.others) > KEYS_HELD:
        outcome.add_caveats(f"more than {KEYS_HELD} rows differ in columns of JSON")
    # keys that are only counted cannot be checked against these any more
    for key in () if drilled.beyond else taken.left(scanned.others):
        drilled.keys.setdefault(key, KeyVerdict.DIFFERENT)
    _suspect(scanned, judgement, drilled.keys, events)
    return judgement


def _judge_flight(
    scanned: Scanned, judgement: KeyJudgement, flight: Flight, taken: TakenOut, digests: Digests
) -> Digests:
    """Judge the keys of a flight that changed between sink and view; returns the digests without their rows."""
    part, outcome, logs = scanned.subject.part, judgement.outcome, judgement.logs(flight)
    views = judgement.views(scanned.view)
    # columns outside the hash are read for all rows, after the view: a change since may hide their value in the view
    all_fly = not views or bool(outside_hash(scanned.subject.table))
    flying = {key: log for key, log in logs.items() if all_fly or log.lies_between(views[0])}
    taken.add(flying)
    ours, theirs = scanned.view.images(flying), flight.sink(flying, WHOLE)
    inside = (ours, theirs) if part.whole else (scanned.view.images(flying, part), flight.sink(flying, part))
    if not part.whole:  # the whole table's row counts included these
        outcome.source_rows -= sum(map(len, ours.values()))
    for key, log in flying.items():
        if not part.whole and not any(key in side for side in inside):
            outcome.source_rows += len(ours.get(key, ())) if log.at_ends is UNKNOWN else log.at_ends is not None
        elif not _several(outcome, key, ours, theirs, log):
            judgement.suspects[key] = KeyEvidence(_one(theirs.get(key)), (_one(ours.get(key)),), log, views)
            judgement.count(key)
    judgement.give_up(after=MAX_SUSPECTS)
    return taken_out(scanned, digests, *inside)


class Drilled(NamedTuple):
    """Keys whose rows differ, and how; leaves that differ though their other rows agree; how many more keys differ."""

    keys: dict[str, KeyVerdict]
    unexplained: tuple[int, ...]
    beyond: Mapping[KeyVerdict, int] = {}


def drill_keys(
    scanned: Scanned,
    source: Mapping[int, Leaf],
    sink: Mapping[int, Leaf],
    taken: Callable[[Iterable[int]], Callable[[str], bool]] = lambda _leaves: lambda _key: False,
) -> Drilled:
    """Read the rows of the leaves that differ between `source` and `sink` (digests without the keys `taken` out)."""
    keys: dict[str, KeyVerdict] = {}
    beyond: Counter[KeyVerdict] = Counter()
    unexplained: list[int] = []
    for group in leaf_groups(scanned, compare(source, sink).unequal):
        flies = taken(group)
        ours, theirs = ([row for row in rows if not flies(row[0])] for rows in row_hashes(scanned, group))
        diff = compare_rows(ours, theirs)
        for verdict in WRONG:
            differing: tuple[str, ...] = getattr(diff, _KINDS[verdict])
            room = max(0, KEYS_HELD - len(keys))
            keys.update(dict.fromkeys(differing[:room], verdict))
            beyond[verdict] += len(differing[room:])
        unexplained += _unexplained(scanned, group, frozenset(diff.keys), (source, ours), (sink, theirs))
    return Drilled(keys, tuple(unexplained), +beyond)


def _unexplained(
    scanned: Scanned,
    group: Collection[int],
    keys: Collection[str],
    *sides: tuple[Mapping[int, Leaf], Iterable[tuple[str, str]]],
) -> tuple[int, ...]:
    """Leaves of the group that still differ after the rows of these keys are taken out of both sides."""
    table, scheme = scanned.subject.table, scanned.scheme
    left = []
    for leaves, rows in sides:
        digests = {leaf: leaves[leaf] for leaf in group if leaf in leaves}
        left.append(without(digests, ((leaf_of(table, scheme, key), h) for key, h in rows if key in keys)))
    return compare(*left).unequal


def _suspect(scanned: Scanned, judgement: KeyJudgement, keys: Mapping[str, KeyVerdict], events: Flights) -> None:
    """Make the keys that are settled one by one suspects; the rest are counted as first read.

    Where the scan's view says which changes it shows, such a key is decided already.
    """
    table, outcome, shown = scanned.subject.table, judgement.outcome, judgement.views(scanned.view)
    chosen = sorted(keys)[:MAX_SUSPECTS]
    for key in sorted(keys)[MAX_SUSPECTS:]:
        outcome.tally.add(keys[key], key)
    ours, theirs = scanned.view.images(chosen), scanned.subject.sink.images(table, chosen)
    outcome.source_rows -= sum(len(ours.get(key, ())) for key in chosen)
    logs = _logs_of(judgement, events, chosen) if shown and chosen else {}
    for key in chosen:
        if not _several(outcome, key, ours, theirs):
            sink, read = _one(theirs.get(key)), _one(ours.get(key))
            judgement.suspects[key] = KeyEvidence(sink, (read,), logs.get(key), shown)
            if shown:
                judgement.count(key)


def _logs_of(judgement: KeyJudgement, events: Flights, keys: Collection[str]) -> dict[str, KeyLog]:
    """The logs of these keys."""
    wanted, logs = frozenset(keys), dict[str, KeyLog]()
    for flight in events.each(only=wanted):
        logs.update((key, log) for key, log in judgement.logs(flight).items() if key in wanted)
    return logs


def _one(images: list[Image] | None) -> Image | None:
    return images[0] if images else None


def _several(outcome: Outcome, key: str, source: Rows, sink: Rows, log: KeyLog | None = None) -> bool:
    """Judge a key if a side has more than one row under it; returns whether that is so.

    In the sink, every further copy is a ghost. In the source it means that rows with different keys there get the same
    key in the sink; in flight, events do not show which of these rows they concern.
    """
    ours, theirs = source.get(key, []), sink.get(key, [])
    if max(len(ours), len(theirs)) < 2:
        return False
    if len(ours) > 1:
        outcome.add_caveats(f"{len(ours)} rows of the source have the same key in the sink: {key}")
    rows = len(ours) if log is None or len(ours) > 1 else int(log.at_ends is not None)
    outcome.source_rows += rows
    if len(ours) > 1 and log is not None:
        outcome.tally.add(KeyVerdict.UNSETTLED, key)
    elif rows != len(theirs):
        outcome.tally.add(KeyVerdict.MISSING if rows > len(theirs) else KeyVerdict.GHOST, key, abs(rows - len(theirs)))
    else:
        outcome.tally.add(KeyVerdict.EQUAL if Counter(ours) == Counter(theirs) else KeyVerdict.DIFFERENT, key)
    return True


# --- without a key ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ImageJudgement:
    """A table without a key: `open` are row hashes whose numbers of copies differ, or may differ.

    `wrong`: hashes that disagreed in the previous round. A hash is reported only after two rounds in different read
    views.
    """

    outcome: Outcome
    sink: Rows
    open: set[str]
    at: Watermark
    source: Rows = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)

    @property
    def pending(self) -> bool:
        return bool(self.open)

    def read_again(self, view: SourceView) -> None:
        self.at = exact(view)
        self.source = view.images(self.open)

    def decide(self, now: Reached) -> None:
        if not _too_busy(self.outcome, now):
            self.count(tail_of(self.outcome, now))

    def count(self, tail: Tail) -> None:
        """Settle the open hashes whose copies certainly agree, or disagree for the second time."""
        by_hash: dict[str, list[tuple[Image, int, Event]]] = defaultdict(list)
        for change in tail.image_changes():
            by_hash[str(change[0][0])].append(change)
        topic = self.outcome.subject.topic
        covered = Covered() if topic is None else topic.log.covered(self.at)
        for row_hash in sorted(self.open):
            rows = self.source.get(row_hash, []), self.sink.get(row_hash, [])
            copies = _copies(*rows, by_hash[row_hash], covered, self.outcome.subject.ends)
            verdicts = [classify_count(count) for count in copies]
            self._note(row_hash, copies, verdicts)

    def _note(self, row_hash: str, copies: list[ImageCount], verdicts: list[tuple[KeyVerdict, int]]) -> None:
        kinds = {verdict for verdict, _ in verdicts}
        if KeyVerdict.UNSETTLED in kinds or (kinds & set(WRONG) and row_hash not in self.wrong):
            self.wrong = self.wrong | {row_hash} if kinds & set(WRONG) else self.wrong - {row_hash}
            return
        self.open.discard(row_hash)
        for verdict, gap in verdicts:
            self.outcome.tally.add(verdict, row_hash, abs(gap) or 1)
        # the rest of the table was counted with its leaves
        self.outcome.source_rows += sum(count.sink + gap for count, (_, gap) in zip(copies, verdicts, strict=True))

    def give_up(self) -> None:
        for row_hash in sorted(self.open):
            self.outcome.tally.add(KeyVerdict.UNSETTLED, row_hash)
            self.outcome.source_rows += len(self.source.get(row_hash, ()))
        self.open.clear()


def judge_images(scanned: Scanned, now: Reached) -> ImageJudgement:
    """Count row images with an event after the ends one by one; compare the others' leaves and drill into them."""
    subject, table = scanned.subject, scanned.subject.table
    outcome = Outcome(subject)
    if _too_busy(outcome, now):
        count_leaves(outcome, scanned, 0)
        outcome.source_rows = rows_in(scanned.source)
        return ImageJudgement(outcome, sink={}, open=set(), at=exact(scanned.view))
    tail = tail_of(outcome, now)
    flying = {str(image[0]) for image, _, _ in tail.image_changes()}
    ours, theirs = scanned.view.images(flying), subject.sink.images(table, flying)
    source, sink = taken_out(scanned, scanned.digests, ours, theirs)
    count_leaves(outcome, scanned, len(flying))
    drilled = _drill_images(scanned, source, sink, flying)
    if drilled.unexplained:
        outcome.add_caveats(leaf_caveat(drilled.unexplained))
    for verdict, count in drilled.beyond.items():
        outcome.tally.count(verdict, count)
    suspects = drilled.keys.keys() | (scanned.others - flying)
    resting = scanned.view.images(suspects)
    outcome.source_rows = rows_in(source) - sum(map(len, resting.values()))
    judgement = ImageJudgement(
        outcome,
        sink={**theirs, **subject.sink.images(table, suspects)},
        open=flying | suspects,
        at=exact(scanned.view),
        source={**ours, **resting},
    )
    judgement.count(tail)
    return judgement


def exact(view: SourceView) -> Watermark:
    """The position of a view on a table without a key. Raises VerificationError for a view that has none."""
    if view.position is None:
        raise VerificationError("a table without a key was read at an unknown position", verdict="INCONCLUSIVE")
    return view.position


def _drill_images(
    scanned: Scanned, source: Mapping[int, Leaf], sink: Mapping[int, Leaf], flying: Collection[str]
) -> Drilled:
    """Row images whose copies differ; after MAX_IMAGES of them, the rows of further leaves are left unsettled."""
    keys: dict[str, KeyVerdict] = {}
    unexplained: list[int] = []
    left = 0
    for group in leaf_groups(scanned, compare(source, sink).unequal):
        if len(keys) >= MAX_IMAGES:
            left += sum(max(side.get(leaf, NO_ROWS).n for side in (source, sink)) for leaf in group)
            continue
        ours, theirs = ([row for row in rows if row[1] not in flying] for rows in row_hashes(scanned, group))
        diff = compare_multisets((h for _, h in ours), (h for _, h in theirs))
        keys.update(dict.fromkeys(diff.keys, KeyVerdict.DIFFERENT))
        unexplained += _unexplained(scanned, group, frozenset(diff.keys), (source, ours), (sink, theirs))
    return Drilled(keys, tuple(unexplained), {KeyVerdict.UNSETTLED: left} if left else {})


def _copies(
    source: list[Image],
    sink: list[Image],
    changes: list[tuple[Image, int, Event]],
    covered: Covered,
    ends: Mapping[int, int],
) -> list[ImageCount]:
    """One count per image under a hash; there are several only where columns are outside the hash.

    A change that the view (`covered`) shows and the sink (`ends`) does not hold happened since, and vice versa.
    """
    ours, theirs = Counter(source), Counter(sink)
    counts = []
    for image in sorted({*ours, *theirs, *(changed for changed, _, _ in changes)}, key=repr):
        since = sum(
            sign * (event.is_covered(covered) - event.is_before(ends))
            for changed, sign, event in changes
            if changed == image
        )
        counts.append(ImageCount(sink=theirs[image], source=ours[image], since=since))
    return counts
