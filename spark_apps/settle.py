"""Judging a scanned table key by key (with a key), or row image by row image (without one)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from airflow_cdc.core.digest import compare, compare_multisets, compare_rows
from airflow_cdc.core.errors import VerificationError
from airflow_cdc.core.logtail import Event, Tail
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.verdict import (
    Image,
    ImageCount,
    KeyEvidence,
    KeyVerdict,
    classify_count,
    classify_key,
)
from airflow_cdc.spark_apps.sides import Rows, SourceView
from airflow_cdc.spark_apps.tail import read_tail
from airflow_cdc.spark_apps.verify_core import Judgement, Outcome, Reached, Scanned, leaf_groups, rows_in, taken_out

# Keys that are settled one by one; what differs beyond that is counted as it was first seen.
MAX_SUSPECTS = 10_000
WRONG = (KeyVerdict.MISSING, KeyVerdict.GHOST, KeyVerdict.DIFFERENT)


def judge(scanned: Scanned, now: Reached) -> Judgement:
    """Take out what is in flight, compare the leaves, find the suspects."""
    return (judge_images if scanned.subject.table.keyless else judge_keys)(scanned, now)


def tail_of(outcome: Outcome, now: Reached) -> Tail:
    """The table's records from the compared ends to `now`; what they leave doubtful is noted in the outcome."""
    subject, topic = outcome.subject, outcome.subject.topic
    if topic is None:
        return Tail()
    tail = read_tail(subject.sink.spark, topic, subject.ends, now.ends.get(topic.name, {}))
    outcome.doubts = tuple(dict.fromkeys((*outcome.doubts, *tail.doubts())))
    return tail


def _count(outcome: Outcome, scanned: Scanned, in_flight: int) -> None:
    outcome.sink_rows = rows_in(scanned.sink) if scanned.subject.part.whole else scanned.totals[1]
    outcome.leaves = len(scanned.source.keys() | scanned.sink.keys())
    outcome.leaves_rechecked = len(scanned.unequal)
    outcome.in_flight = in_flight


# --- with a key ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class KeyJudgement:
    """A table with a key: `suspects` are keys that differ without an event that explains it."""

    outcome: Outcome
    suspects: dict[str, KeyEvidence] = field(default_factory=dict)

    @property
    def pending(self) -> bool:
        return bool(self.suspects)

    def read_again(self, view: SourceView) -> None:
        found = view.images(self.outcome.subject.table, self.suspects)
        for key, evidence in self.suspects.items():
            self.suspects[key] = replace(evidence, reads=(*evidence.reads, _one(found.get(key))))

    def settle(self, before: Reached, now: Reached) -> None:
        del before
        tail = tail_of(self.outcome, now)
        first = tail.first_events()
        for key, evidence in list(self.suspects.items()):
            verdict = classify_key(replace(evidence, event=first.get(key)))
            if verdict is not KeyVerdict.UNSETTLED:
                self.outcome.tally.add(verdict, key)
                del self.suspects[key]

    def give_up(self) -> None:
        for key in self.suspects:
            self.outcome.tally.add(KeyVerdict.UNSETTLED, key)
        self.suspects.clear()


def judge_keys(scanned: Scanned, now: Reached) -> KeyJudgement:
    """Keys with an event after the ends are decided here; the others' leaves are compared and drilled."""
    subject, table = scanned.subject, scanned.subject.table
    outcome = Outcome(subject)
    flying = tail_of(outcome, now).first_events()
    ours, theirs = scanned.view.images(table, flying), subject.sink.images(table, flying)
    inside = (ours, theirs) if subject.part.whole else _inside(scanned, flying)
    source, sink = taken_out(scanned, *inside)
    _count(outcome, scanned, len(flying))
    resting = rows_in(source) if subject.part.whole else scanned.totals[0] - sum(map(len, ours.values()))
    outcome.source_rows = resting + sum(event.before is not None for event in flying.values())
    for key, event in flying.items():
        concerned = subject.part.whole or any(key in side for side in inside)
        if concerned and not _twice(outcome, key, theirs):
            outcome.tally.add(classify_key(KeyEvidence(_one(theirs.get(key)), (), event)), key)
    suspects = drill_keys(scanned, compare(source, sink).unequal, flying)
    for key in scanned.others - flying.keys():
        suspects.setdefault(key, KeyVerdict.DIFFERENT)
    return KeyJudgement(outcome, _evidence(scanned, outcome, suspects))


def _inside(scanned: Scanned, keys: Iterable[str]) -> tuple[Rows, Rows]:
    """The rows of these keys that are in the compared part, of source and sink."""
    subject, part = scanned.subject, scanned.subject.part
    return scanned.view.images(subject.table, keys, part), subject.sink.images(subject.table, keys, part)


def drill_keys(scanned: Scanned, leaves: Iterable[int], flying: Mapping[str, object]) -> dict[str, KeyVerdict]:
    """The keys of unequal leaves whose rows differ, and how, without those in flight."""
    table, part, scheme, found = scanned.subject.table, scanned.subject.part, scanned.scheme, {}
    for group in leaf_groups(scanned, leaves):
        ours = [row for row in scanned.view.hashes(table, scheme, group, part) if row[0] not in flying]
        theirs = [row for row in scanned.subject.sink.hashes(table, scheme, group, part) if row[0] not in flying]
        diff = compare_rows(ours, theirs)
        found.update(dict.fromkeys(diff.missing, KeyVerdict.MISSING))
        found.update(dict.fromkeys(diff.ghosts, KeyVerdict.GHOST))
        found.update(dict.fromkeys(diff.different, KeyVerdict.DIFFERENT))
    return found


def _evidence(scanned: Scanned, outcome: Outcome, suspects: Mapping[str, KeyVerdict]) -> dict[str, KeyEvidence]:
    """Evidence for the suspects that are settled one by one; the rest is counted as it was seen."""
    table = scanned.subject.table
    chosen = sorted(suspects)[:MAX_SUSPECTS]
    for key in sorted(suspects)[MAX_SUSPECTS:]:
        outcome.tally.add(suspects[key], key)
    ours, theirs = scanned.view.images(table, chosen), scanned.subject.sink.images(table, chosen)
    return {
        key: KeyEvidence(_one(theirs.get(key)), (_one(ours.get(key)),))
        for key in chosen
        if not _twice(outcome, key, theirs)
    }


def _one(images: list[Image] | None) -> Image | None:
    return images[0] if images else None


def _twice(outcome: Outcome, key: str, sink: Rows) -> bool:
    """A key that stands more than once in the sink: every further copy is a ghost."""
    copies = len(sink.get(key, ()))
    if copies > 1:
        outcome.tally.add(KeyVerdict.GHOST, key, copies - 1)
    return copies > 1


# --- without a key ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ImageJudgement:
    """A table without a key: `open` are row hashes whose copies do not agree, or may not.

    `wrong` are those of them that were wrong in the last round: said only if they are so twice, in different views.
    """

    outcome: Outcome
    sink: Rows
    open: set[str]
    flying: set[str]
    at: Watermark
    source: Rows = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)

    @property
    def pending(self) -> bool:
        return bool(self.open)

    def read_again(self, view: SourceView) -> None:
        self.at = exact(view)
        self.source = view.images(self.outcome.subject.table, self.open)

    def settle(self, before: Reached, now: Reached) -> None:
        del before
        self.decide(tail_of(self.outcome, now))

    def decide(self, tail: Tail) -> None:
        """Settle the open hashes whose copies agree for certain, or disagree for the second time."""
        by_hash: dict[str, list[tuple[Image, int, Event]]] = defaultdict(list)
        for change in tail.image_changes():
            by_hash[str(change[0][0])].append(change)
        for row_hash in sorted(self.open):
            found = _copies(self.source.get(row_hash, []), self.sink.get(row_hash, []), by_hash[row_hash], self.at)
            verdicts = [classify_count(count) for count in found]
            self._note(row_hash, found, verdicts)

    def _note(self, row_hash: str, found: list[ImageCount], verdicts: list[tuple[KeyVerdict, int]]) -> None:
        kinds = {verdict for verdict, _ in verdicts}
        if KeyVerdict.UNSETTLED in kinds or (kinds & set(WRONG) and row_hash not in self.wrong):
            self.wrong = self.wrong | {row_hash} if kinds & set(WRONG) else self.wrong - {row_hash}
            return
        self.open.discard(row_hash)
        for verdict, gap in verdicts:
            self.outcome.tally.add(verdict, row_hash, abs(gap) or 1)
        if row_hash in self.flying:  # the rest of the table was counted with its leaves
            self.outcome.source_rows += sum(count.sink + gap for count, (_, gap) in zip(found, verdicts, strict=True))

    def give_up(self) -> None:
        for row_hash in sorted(self.open):
            self.outcome.tally.add(KeyVerdict.UNSETTLED, row_hash)
        self.open.clear()


def judge_images(scanned: Scanned, now: Reached) -> ImageJudgement:
    """Row images with an event after the ends are counted one by one; the others' leaves are compared and drilled."""
    subject, table = scanned.subject, scanned.subject.table
    outcome = Outcome(subject)
    tail = tail_of(outcome, now)
    flying = {str(image[0]) for image, _, _ in tail.image_changes()}
    ours, theirs = scanned.view.images(table, flying), subject.sink.images(table, flying)
    source, sink = taken_out(scanned, ours, theirs)
    _count(outcome, scanned, len(flying))
    outcome.source_rows = rows_in(source)
    suspects = _drill_images(scanned, compare(source, sink).unequal, flying) | (scanned.others - flying)
    judgement = ImageJudgement(
        outcome,
        sink={**theirs, **subject.sink.images(table, suspects)},
        open=flying | suspects,
        flying=flying,
        at=exact(scanned.view),
        source={**ours, **scanned.view.images(table, suspects)},
    )
    judgement.decide(tail)
    return judgement


def exact(view: SourceView) -> Watermark:
    """The position of a view on a table without a key. Raises VerificationError for a view that has none."""
    if view.position is None:
        raise VerificationError("a table without a key was read at an unknown position", verdict="INCONCLUSIVE")
    return view.position


def _drill_images(scanned: Scanned, leaves: Iterable[int], flying: set[str]) -> set[str]:
    table, found = scanned.subject.table, set[str]()
    for group in leaf_groups(scanned, leaves):
        ours = (h for _, h in scanned.view.hashes(table, scanned.scheme, group) if h not in flying)
        theirs = (h for _, h in scanned.subject.sink.hashes(table, scanned.scheme, group) if h not in flying)
        found |= set(compare_multisets(ours, theirs).keys)
    return found


def _copies(
    source: list[Image],
    sink: list[Image],
    changes: list[tuple[Image, int, Event]],
    at: Watermark,
) -> list[ImageCount]:
    """One count per image under a hash: several only where columns stand outside the hash."""
    ours, theirs = Counter(source), Counter(sink)
    counts = []
    for image in sorted({*ours, *theirs, *(changed for changed, _, _ in changes)}, key=repr):
        since = sum(sign for changed, sign, event in changes if changed == image and event.is_before(at))
        counts.append(ImageCount(sink=theirs[image], source=ours[image], since=since))
    return counts
