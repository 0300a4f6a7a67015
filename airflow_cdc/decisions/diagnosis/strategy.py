"""From a diagnosis and the pipeline's policy to a plan: what to do, what it loses, who must agree.

Each strategy is a row of STRATEGIES. The planner takes the first one the diagnosis allows whose
preconditions hold, and otherwise refuses with the reason. UNKNOWN allows none.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from airflow_cdc.core.errors import UsageError
from airflow_cdc.core.forecast import snapshot_fits
from airflow_cdc.core.observation import ControlFacts, Observation, SchemaFacts, SinkFacts, SourceFacts
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.core.problem import AnyCase, Blocker, Rules
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.decisions.diagnosis.evidence import tables_of
from airflow_cdc.decisions.diagnosis.problems import others, shown
from airflow_cdc.decisions.removal import over_limit

AUTO = "auto"  # when asked for: the cheapest safe strategy
NOTHING = "nothing"
_READS = "recover"  # the step that reads the source

DETOUR = "replica_detour"
TRANSLATE = "translate_gtid"
DIFF_REPAIR = "diff_repair"
NEXT_FILE = "resume_next_file"
FULL = "full_snapshot"
COMPARING = (DIFF_REPAIR, NEXT_FILE)  # reads only the rows that differ, if that is less work
# These move the connector's position but change no row of the sink, so they raise no epoch and every stamp stays valid.
POSITION_ONLY = frozenset({DETOUR, TRANSLATE})


@dataclass(frozen=True, slots=True)
class Strategy:
    """One row: when it is right, what it loses, its steps, and what blocks it on every system.

    `changes` is False if no row changes and no offset moves. `special`: works only with a source that offers it.
    `sinkless`: touches no table of the sink, so it also works for a pipeline without one.
    """

    code: str
    when: str
    data_loss: str
    steps: tuple[str, ...]
    blockers: tuple[Blocker, ...]
    changes: bool = True
    special: bool = False
    sinkless: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be done, and why (`reason`). A refused plan does nothing and has the strategy "none".

    Attributes:
        seconds: how long reading the source took last time; None if nothing is read, or unknown.
        fits_retention: whether the source keeps its log for longer than `seconds` (or, if unknown, than the policy's
            max_duration); None if nothing is read or the retention could not be read.
    """

    strategy: str
    steps: tuple[str, ...]
    data_loss: str
    destructive: bool
    needs_approval: bool
    reason: str
    refused: bool = False
    seconds: float | None = None
    fits_retention: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))


def make_plan(
    diagnosis: Diagnosis,
    policy: Policy,
    obs: Observation,
    rules: Rules,
    *,
    asked: str | None = None,
    deletes: Mapping[str, int | None] | None = None,
) -> Plan:
    """Choose a strategy, or refuse with the reason.

    `asked` is a strategy named by a person; it must be one the diagnosis allows. `deletes` is how many sink rows of each
    table will be deleted, as far as expected; None if that is unknown (INV 36). Raises UsageError for a strategy that
    does not exist.
    """
    if asked is not None:
        check_strategy(asked, where=obs.pipeline.name)
    on_request = rules.on_request(diagnosis.code)
    candidates = _candidates(diagnosis, asked, on_request)
    if not candidates:
        return refused_plan(_why_none(diagnosis, asked, on_request))
    case = rules.case(obs)
    blocked = {code: _blocked(STRATEGIES[code], rules, case) for code in candidates}
    chosen = next((code for code in candidates if not blocked[code]), None)
    if chosen is None:
        return refused_plan(f"{diagnosis.code}: " + " ".join(f"{code}: {'; '.join(h)}." for code, h in blocked.items()))
    passed = " ".join(f"Not {code}: {'; '.join(blocked[code])}." for code in candidates if blocked[code])
    plan = _plan(STRATEGIES[chosen], diagnosis, policy, _over_limit(policy, obs, deletes or {}), passed)
    return _timed(_taking_over(_noted(plan, rules, case), obs), policy, obs) if _READS in plan.steps else plan


def _taking_over(plan: Plan, obs: Observation) -> Plan:
    """The plan, which a person has to approve whatever the policy says if it replaces rows of tables that were never ours.

    What is approved stays approved while the recovery is open.
    """
    tables = tables_of(obs) or {}
    theirs = {name: other for name, other in others(obs).items() if not tables[name].stamp}
    if not theirs or open_strategy(obs):
        return plan
    named = ", ".join(f"{name} ({shown(other)})" for name, other in theirs.items())
    warning = f"It replaces all rows of tables that another program wrote: {named}. Stop that program first."
    return replace(plan, destructive=True, needs_approval=True, reason=f"{plan.reason} {warning}")


def _plan(strategy: Strategy, diagnosis: Diagnosis, policy: Policy, over_limit: str, passed: str) -> Plan:
    """`passed` says why cheaper strategies were skipped."""
    lossy = strategy.data_loss != NOTHING
    destructive = strategy.changes and (lossy or bool(over_limit))
    # an open recovery was approved when it was opened, and stays open until it is finished
    goes_on = diagnosis.code == "RECOVERY_OPEN" and strategy.code in diagnosis.strategies
    asks = strategy.changes and not goes_on
    reason = f"{diagnosis.code}: {strategy.when}"
    return Plan(
        strategy=strategy.code,
        steps=strategy.steps,
        data_loss=strategy.data_loss,
        destructive=destructive,
        needs_approval=asks and _APPROVAL[policy.approval](destructive),
        reason=" ".join(part for part in (reason, over_limit, passed) if part),
    )


def _timed(plan: Plan, policy: Policy, obs: Observation) -> Plan:
    """The plan with its duration, as far as known, and whether the log is kept that long."""
    seconds = obs.control.read_seconds if isinstance(obs.control, ControlFacts) else None
    retention = obs.source.retention if isinstance(obs.source, SourceFacts) else None
    fits = None if retention is None else snapshot_fits(retention, policy.max_duration if seconds is None else seconds)
    return replace(plan, seconds=seconds, fits_retention=fits)


def choices(diagnosis: Diagnosis, obs: Observation, rules: Rules) -> dict[str, str]:
    """Strategies that a person may choose for this problem, cheapest first → why it is blocked; "" if it is not."""
    case = rules.case(obs)
    offered = dict.fromkeys((*diagnosis.strategies, *rules.on_request(diagnosis.code)))
    return {
        code: "; ".join(_blocked(STRATEGIES[code], rules, case))
        for code in offered
        if STRATEGIES[code].changes and STRATEGIES[code].steps
    }


def check_strategy(asked: str, *, where: str) -> None:
    """Raise UsageError for a strategy that does not exist, with the nearest name and the list of all."""
    if asked in STRATEGIES:
        return
    close = difflib.get_close_matches(asked, STRATEGIES, n=1)
    nearest = f"Did you mean {close[0]!r}? " if close else ""
    raise UsageError(
        f"there is no strategy {asked!r}", where=where, todo=f"{nearest}There are: {', '.join((AUTO, *STRATEGIES))}."
    )


def _noted(plan: Plan, rules: Rules, case: AnyCase) -> Plan:
    """The plan with its lasting changes of the connector added to the reason."""
    return replace(plan, reason=" ".join(filter(None, (plan.reason, *(note(case) for note in rules.notes)))))


def refused_plan(reason: str) -> Plan:
    """A plan that does nothing and gives the reason."""
    return Plan("none", (), NOTHING, destructive=False, needs_approval=False, reason=reason, refused=True)


def _candidates(diagnosis: Diagnosis, asked: str | None, on_request: tuple[str, ...]) -> tuple[str, ...]:
    if asked is None:
        return diagnosis.strategies
    allowed = (*diagnosis.strategies, *on_request)
    return (asked,) if asked in allowed else ()


def _why_none(diagnosis: Diagnosis, asked: str | None, on_request: tuple[str, ...]) -> str:
    able = (*diagnosis.strategies, *on_request)
    offered = f" On request: {', '.join(able)}." if able else ""
    if asked is not None and able:
        return f"{asked!r} does not apply to {diagnosis.code}.{offered}"
    texts = "; ".join(f"{name}: {value}" for name, value in diagnosis.evidence.items())
    return f"{diagnosis.code}: {diagnosis.description} {texts}.{offered}"


def _blocked(strategy: Strategy, rules: Rules, case: AnyCase) -> tuple[str, ...]:
    """Why the strategy cannot be carried out: first the blockers of every system, then those of the pipeline's systems."""
    if not strategy.sinkless and not case.seen.pipeline.has_sink:
        return ("it needs a sink, and this pipeline has none",)
    if strategy.special and strategy.code not in rules.offers:
        return ("this kind of source does not support it",)
    blockers = (*strategy.blockers, *rules.blockers.get(strategy.code, ()))
    unreadable = rules.no_recovery if _source_logs_rows in strategy.blockers else ""
    return tuple(why for why in (unreadable, *(blocker(case) for blocker in blockers)) if why)


def _over_limit(policy: Policy, obs: Observation, deletes: Mapping[str, int | None]) -> str:
    tables = obs.sink.tables if isinstance(obs.sink, SinkFacts) else {}
    return over_limit(policy.max_deletes, deletes, {name: facts.rows for name, facts in tables.items()})


# ---- blockers ----------------------------------------------------------------------------------


def _all_known(case: AnyCase) -> str:
    offset = {"offset": case.connector.offset_unseen} if case.connector and case.connector.offset_unseen else {}
    unread = ", ".join(f"{part} ({why})" for part, why in {**case.seen.unknowns, **offset}.items())
    return f"could not read {unread}" if unread else ""


def _connector_known(case: AnyCase) -> str:
    return "" if case.connector else f"connector: {case.seen.unknowns.get('connector', 'not read')}"


def open_strategy(obs: Observation) -> str:
    """The strategy of the open recovery; "" if none is open."""
    control = obs.control
    recovery = control.recovery if isinstance(control, ControlFacts) else None
    return (recovery.strategy or "unknown") if recovery else ""


def _recovery_is_open(case: AnyCase) -> str:
    strategy = open_strategy(case.seen)
    if strategy in POSITION_ONLY:
        return f"the open recovery is a {strategy}, which moves the position only"
    return "" if strategy else "no recovery is open"


def _source_logs_rows(case: AnyCase) -> str:
    source = case.source
    if source is None:
        return ""  # _all_known reports it
    return "; ".join(f"{name} is {fault}" for name, fault in source.log_faults.items())


def keyless_blocker(case: AnyCase) -> str:
    """Tables whose rows would be counted twice if another server's log repeats a change.

    Without a key a repeat is recognised by its exact place in the log, which differs on another server (INV 19).
    """
    definitions = case.seen.schema.definitions if isinstance(case.seen.schema, SchemaFacts) else {}
    keyless = ", ".join(sorted(name for name, table in definitions.items() if table.keyless))
    return f"{keyless} without a key: repeats from another server's log would look like new rows" if keyless else ""


def _by_hand(why: str) -> Blocker:
    """For a strategy that is known to be right but that no run can carry out yet."""
    return lambda _case: f"no run carries it out: {why}"


_APPROVAL: Mapping[str, Callable[[bool], bool]] = {
    "always": lambda _destructive: True,
    "when_destructive": lambda destructive: destructive,
    "never": lambda _destructive: False,
}

_SNAPSHOT_STEPS = (
    "open_recovery",
    "stop_connector",
    "hold_binlog",
    "fence_and_watermark",
    "recover",
    "reset_offset",
    "resume_connector",
    "verify",
    "publish",
    "close",
    "report",
)

_BACK_STEPS = ("return_connector", "compare", "verdict", "report")

STRATEGIES: Mapping[str, Strategy] = {
    row.code: row
    for row in (
        Strategy("none", "No recovery is needed.", NOTHING, ("report",), (), changes=False, sinkless=True),
        Strategy(
            "restart",
            "Only the connector failed and the source still has everything, so the connector is restarted once.",
            NOTHING,
            ("restart", "report"),
            (_connector_known,),
            sinkless=True,
        ),
        Strategy(
            TRANSLATE,
            "The server that took over holds every transaction of the stored set.",
            NOTHING,
            ("open_recovery", *_BACK_STEPS),
            (keyless_blocker, _all_known, _source_logs_rows),
            special=True,
        ),
        Strategy(
            DETOUR,
            "A replica still has every transaction that the source purged; the connector reads there and then returns.",
            NOTHING,
            ("open_recovery", "detour_connector", *_BACK_STEPS),
            (keyless_blocker, _all_known, _source_logs_rows),
            special=True,
        ),
        Strategy(
            "skip",
            "The connector continues at the end of the source's log, because a person asked for that.",
            "every change between the stored position and the source's end",
            (),
            (_by_hand("move the position by `airflow cdc offset set`, which states what it skips"),),
        ),
        Strategy(
            "finish",
            "The open recovery continues where its ledger says that it stopped.",
            NOTHING,
            _SNAPSHOT_STEPS,
            (_recovery_is_open, _all_known),
        ),
        Strategy(
            NEXT_FILE,
            "The connector continues at the next file of the log; all tables are compared, and rows that differ are repaired.",
            NOTHING,
            _SNAPSHOT_STEPS,
            (_all_known, _source_logs_rows),
            special=True,
        ),
        Strategy(
            DIFF_REPAIR,
            "The tables are compared with the source, only rows that differ are re-read, and all tables are published together.",
            NOTHING,
            _SNAPSHOT_STEPS,
            (_all_known, _source_logs_rows),
        ),
        Strategy(
            FULL,
            "All declared tables are re-read, compared row by row and published together.",
            NOTHING,
            _SNAPSHOT_STEPS,
            (_all_known, _source_logs_rows),
        ),
    )
}
