"""The rows of all kinds together: one order, no rank twice, every code with a place in the runbook."""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_cdc import core, decisions
from airflow_cdc.core.observation import Unknown
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.problem import Beside, Danger, Problem, Rules, assemble
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis, diagnose
from airflow_cdc.kinds import CONNECTORS, SINKS, SOURCES, TRANSPORTS, all_texts, problems_for, rules_for
from tests.diagnosing import case_of
from tests.unit.builders import HEALTHY, PIPELINE
from tests.unit.faults import PURGED


def combinations() -> list[Pipeline]:
    """A pipeline of every combination of kinds that one may have."""
    return [
        replace(
            PIPELINE,
            source=replace(PIPELINE.source, kind=source),
            connector=replace(PIPELINE.connector, kind=connector),
            transport=replace(PIPELINE.transport, kind=transport),
            sink=replace(PIPELINE.sink, kind=sink),
        )
        for source, connector, transport, sink in itertools.product(SOURCES, CONNECTORS, TRANSPORTS, SINKS)
        if source in CONNECTORS[connector].reads and transport in CONNECTORS[connector].through
    ]


@pytest.mark.parametrize("pipeline", combinations(), ids=lambda pipeline: pipeline.source.kind)
def test_ranks_are_distinct_and_in_order(pipeline: Pipeline) -> None:
    ranks = [row.rank for row in problems_for(pipeline)]
    assert ranks == sorted(set(ranks))
    assert ranks[0] == 10
    assert problems_for(pipeline)[-1].code == "HEALTHY"


# what each code costs while nobody acts, written down apart from the ranks; a code of several dangers by its description
DANGERS = {
    "RECOVERY_OPEN": Danger.OPEN,
    "UNKNOWN": Danger.UNREAD,
    "HEALTHY": Danger.FINE,
    **dict.fromkeys(
        (
            "LOG_INCOMPLETE",
            "XA_ROLLED_BACK",
            "REPLICA_IDENTITY",
            "SLOT_GROWS",
            "SINK_DIFFERS",
            "SINK_WRITTEN_BY_OTHERS",
            "DELETES_DROPPED",
        ),
        Danger.THREAT,
    ),
    **dict.fromkeys(("SINK_LETTERS", "SINK_GROUP_SHARED", "SINK_MISCONFIGURED"), Danger.THREAT),
    **dict.fromkeys(("SINK_BEHIND", "CONNECTOR_MISCONFIGURED"), Danger.SETTING),
}
SEVERAL = {
    "UNKNOWN: The connector streams from": Danger.LOSS,
    "UNKNOWN: The connector's position is kept where": Danger.LOSS,
    "UNKNOWN: Topics, sink or table definitions": Danger.LOSS,
    "UNKNOWN: The connector is between states": Danger.LOSS,
    "SOURCE_MISCONFIGURED: The source's log settings or its user's": Danger.SETTING,
    "SOURCE_MISCONFIGURED: The reading role lacks rights": Danger.SETTING,
    "TRANSPORT_MISCONFIGURED: The topic of the connector's schema history": Danger.THREAT,
    "TRANSPORT_MISCONFIGURED: The queue can lose messages": Danger.THREAT,
    "CONNECTOR_MISCONFIGURED: What Canal sends reaches no queue": Danger.LOSS,
    "CONNECTOR_MISCONFIGURED: The job takes no checkpoints": Danger.LOSS,
}


# what is a consequence wherever the position is lost, wrong or in doubt, written down apart from the rows' flags: what a
# connector does then, and who answers, follows from it
FOLLOWS_FROM_THE_POSITION = (
    "AT_RISK",
    "CONNECTOR_FAILED_TRANSIENT",
    "CONNECTOR_FAILED",
    "CONNECTOR_STOPPED",
    "CONNECTOR_LOOPING",
    "SOURCE_FAILED_OVER",
    "UNKNOWN: The connector is between states",
)


def danger_of(row: Problem) -> Danger:
    said = f"{row.code}: {row.description}"
    several = next((danger for begin, danger in SEVERAL.items() if said.startswith(begin)), None)
    return DANGERS.get(row.code, Danger.LOSS) if several is None else several


@pytest.mark.parametrize("pipeline", combinations(), ids=lambda pipeline: pipeline.source.kind)
def test_inv_40_of_every_two_problems_the_greater_danger_leads_and_the_other_is_named(pipeline: Pipeline) -> None:
    rules, case = rules_for(pipeline), replace(HEALTHY, pipeline=pipeline)

    def said_of(*rows: Problem) -> Diagnosis:
        holding = tuple(replace(row, holds=lambda _case: {"seen": "yes"}) for row in rows)
        return diagnose(case, replace(rules, problems=holding, remarks=()))

    assert [row for row in rules.problems if row.danger is not danger_of(row)] == []
    for one, other in itertools.combinations(rules.problems, 2):
        diagnosis = said_of(one, other)
        least = min(danger_of(one), danger_of(other))
        assert diagnosis.description in {row.description for row in (one, other) if danger_of(row) == least}
        named = {(one.description), *(beside.description for beside in diagnosis.others)}
        assert (other.description in named) == (other.code != "HEALTHY" and not explained(other, one)), (one, other)


_FOLLOWING = tuple(one if ":" in one else f"{one}: " for one in FOLLOWS_FROM_THE_POSITION)


def explained(row: Problem, by: Problem) -> bool:
    """Whether a row says nothing of its own beside another: the position is judged once, and what fails there fails by it."""
    both_judge = row.judges_position and by.judges_position and by.danger is Danger.LOSS
    return both_judge or (by.judges_position and f"{row.code}: {row.description}".startswith(_FOLLOWING))


def test_inv_40_no_row_of_the_position_is_taken_for_a_consequence_of_something_unread() -> None:
    lost = replace(HEALTHY, source=PURGED, control=Unknown("locked"))
    diagnosis = diagnose(lost, rules_for(PIPELINE))
    assert (diagnosis.code, [other.code for other in diagnosis.others]) == ("UNKNOWN", ["GTID_PURGED"])


def test_two_rows_of_one_rank_are_refused() -> None:
    row = Problem("A", 50, "", lambda _case: None)
    with pytest.raises(ValueError, match="A and B both have the rank 50"):
        assemble((Rules((row,)), Rules((replace(row, code="B"),))))


def test_a_row_carries_what_another_part_says_beside_it() -> None:
    holds = Problem("A", 50, "", lambda _case: {"a": "1"})
    not_so = Problem("B", 51, "", lambda _case: None)
    beside = Beside(frozenset({50, 51}), lambda _case: {"b": "2"})
    one, other = assemble((Rules((not_so, holds)), Rules(beside=(beside,)))).problems
    case = case_of(HEALTHY)
    assert (one.holds(case), other.holds(case)) == ({"a": "1", "b": "2"}, None)


# one sequence over all systems: a number that changes changes what a pipeline with two faults is told first
ORDER = {
    10: "RECOVERY_OPEN",
    20: "UNKNOWN",
    21: "UNKNOWN",
    25: "SOURCE_MISCONFIGURED",
    30: "GTID_PURGED",
    31: "POSITION_AHEAD",
    32: "SOURCE_CHANGED",
    33: "BINLOG_PURGED",
    34: "POSITION_PAST_END",
    35: "POSITION_MID_EVENT",
    36: "GTID_MODE_MISMATCH",
    37: "GTID_NOT_CONTAINED",
    38: "UNKNOWN",
    39: "DDL_IN_GAP",
    40: "UNKNOWN",
    41: "OFFSET_AMBIGUOUS",
    42: "NEW_PIPELINE",
    43: "OFFSET_MISSING",
    44: "GTID_MISSING_IN_OFFSET",
    45: "SNAPSHOT_INTERRUPTED",
    46: "SCHEMA_HISTORY_MISSING",
    47: "SOURCE_MISCONFIGURED",
    48: "TRANSACTION_HALF_SENT",
    49: "SOURCE_FAILED_OVER",
    50: "DUPLICATE_SERVER_ID",
    51: "TRANSPORT_MISCONFIGURED",
    52: "CONNECTOR_FAILED_TRANSIENT",
    53: "CONNECTOR_FAILED",
    54: "AT_RISK",
    55: "CONNECTOR_STOPPED",
    56: "UNKNOWN",
    57: "CONNECTOR_LOOPING",
    60: "TRANSPORT_REPLACED",
    61: "TRANSPORT_GAP",
    62: "SELF_HEALED",
    63: "EPOCH_BEHIND",
    64: "STAMP_LOST",
    65: "TABLE_ADDED",
    66: "TABLE_NEEDS_REREAD",
    68: "UNKNOWN",
    70: "SINK_DIFFERS",
    71: "LOG_INCOMPLETE",
    72: "XA_ROLLED_BACK",
    74: "SINK_WRITTEN_BY_OTHERS",
    75: "TRANSPORT_MISCONFIGURED",
    76: "DELETES_DROPPED",
    83: "CONNECTOR_MISCONFIGURED",
    84: "CONNECTOR_MISCONFIGURED",
    85: "CONNECTOR_MISCONFIGURED",
    86: "CONNECTOR_MISCONFIGURED",
    90: "SINK_BEHIND",
    91: "CONNECTOR_MISCONFIGURED",
    92: "SOURCE_MISCONFIGURED",
    99: "HEALTHY",
}


def test_the_order_of_judgement_is_as_published() -> None:
    assert {row.rank: row.code for row in problems_for(PIPELINE)} == ORDER


def test_mariadb_has_all_rows_but_those_that_need_a_server_uuid_or_a_set() -> None:
    mariadb = replace(PIPELINE, source=replace(PIPELINE.source, kind="mariadb"))
    own = {row.rank: row.code for row in problems_for(mariadb)}
    assert own == {rank: code for rank, code in ORDER.items() if code != "SOURCE_FAILED_OVER"}
    assert rules_for(mariadb).offers == frozenset()


def test_texts_of_one_rank_are_one_row() -> None:
    ranks = [text.rank for text in all_texts()]
    assert len(ranks) == len(set(ranks))


def test_the_ground_names_no_system() -> None:
    """In names and texts of its code; docstrings and comments may give examples."""
    systems = {*SOURCES, *CONNECTORS, *TRANSPORTS, *SINKS} - {"none", "topics"}  # words that are no system's
    names = re.compile("|".join(sorted(systems)), re.IGNORECASE)
    rooms = (Path(core.__file__).parent, Path(decisions.__file__).parent)
    told = {path.name: _words(ast.parse(path.read_text())) for room in rooms for path in room.rglob("*.py")}
    assert len(told) > 50
    assert [(name, word) for name, words in told.items() for word in words if names.search(word)] == []


def _words(tree: ast.AST) -> list[str]:
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    words = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            words.append(node.value)
        words += [str(getattr(node, part)) for part in ("id", "attr", "name", "arg", "module") if hasattr(node, part)]
    return words
