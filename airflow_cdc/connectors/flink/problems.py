"""The rows of the diagnosis for a Flink job: above all what Flink accepts, or goes on doing, without a word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_cdc.connectors.flink.capture import FlinkCapture
from airflow_cdc.connectors.flink.connector import FlinkFacts
from airflow_cdc.connectors.flink.error_texts import TEXTS
from airflow_cdc.connectors.flink.kind import FlinkSettings
from airflow_cdc.connectors.flink.plan import BY_YAML
from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.observation import SchemaFacts
from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.core.problem import WARNING, AnyCase, Beside, Blocker, Evidence, Problem, Rules
from airflow_cdc.core.text import shorten
from airflow_cdc.decisions.diagnosis.connector_rows import CONNECTOR_STATES
from airflow_cdc.decisions.diagnosis.evidence import (
    OFFSETS,
    STATUS,
    evidence,
    offset_evidence,
    server_evidence,
    state_evidence,
)
from airflow_cdc.decisions.diagnosis.strategy import DETOUR, DIFF_REPAIR, FULL, NEXT_FILE, TRANSLATE
from airflow_cdc.sources.mysql.binlog_problems import known_servers
from airflow_cdc.sources.mysql.facts import MySqlFacts
from airflow_cdc.sources.mysql.position import MySqlPosition

_CONFIG: Final = "the job's plan"
# ranks of the rows in which a failing job shows
_FAILING: Final = frozenset({30, 33, 52, 53})


def setting_refused(case: AnyCase) -> Evidence | None:
    """The pipeline has a sink, and the job has an option with which its events are not whole."""
    error = _rows_error(case) if case.seen.pipeline.has_sink else None
    return None if error is None else evidence(case, _CONFIG, {"rows": f"refused, because {error}"})


def rows_remark(case: AnyCase) -> Iterator[str]:
    """Why the job's rows are not those of its source, said beside any diagnosis."""
    if (error := _rows_error(case)) is not None:
        yield f"rows: refused, because {error}"


def rows_changed(case: AnyCase) -> str:
    """A job whose options change rows, or leave some out: a comparison would find them again and again."""
    error = _rows_error(case)
    return "" if error is None else str(error)


def _rows_error(case: AnyCase) -> CdcError | None:
    facts = _facts(case)
    return facts.capture.rows_refused if facts is not None and facts.capture is not None else None


def stores_nothing(case: AnyCase) -> Evidence | None:
    """The job takes no checkpoints: it has no position, and begins anew after every failure."""
    facts = _facts(case)
    if facts is None or not facts.jobs or facts.checkpoint_ms:
        return None
    return {**evidence(case, STATUS, {"execution.checkpointing.interval": "not set"}), **state_evidence(case)}


def gtids_ahead(case: AnyCase) -> Evidence | None:
    """The stored set holds numbers that the server has still to give: Flink runs, and skips each of them in silence.

    Numbers of a server_uuid that this server does not know are not accepted: see GTID_NOT_CONTAINED.
    """
    pair = case.both_of_one_server
    if _facts(case) is None or pair is None:
        return None
    source, position = pair
    if not isinstance(source, MySqlFacts) or not isinstance(position, MySqlPosition) or not position.gtids:
        return None
    unseen = position.gtids - source.executed
    if unseen.is_empty or not {*unseen.uuids} <= {*source.executed.uuids}:
        return None
    sets = {"stored": position.gtids, "executed": source.executed, "will be skipped": unseen}
    texts = {f"gtids {name}": f"{shorten(str(one))} ({one.count} transactions)" for name, one in sets.items()}
    at = evidence(case, OFFSETS, {"gtids stored": texts.pop("gtids stored")})
    return {**at, **server_evidence(case, texts), **state_evidence(case)}


def several_jobs(case: AnyCase) -> Evidence | None:
    """Two jobs of one name write the same sink."""
    facts = _facts(case)
    if facts is None or len(facts.jobs) < 2:
        return None
    return evidence(case, STATUS, {f"job {n}": job for n, job in enumerate(facts.jobs, 1)})


def tables_not_read(case: AnyCase) -> Evidence | None:
    """Tables that no source of the job reads."""
    facts, schema = _facts(case), case.seen.schema
    if facts is None or not isinstance(facts.capture, FlinkCapture) or not isinstance(schema, SchemaFacts):
        return None
    unread: dict[str, object] = {}
    for name, table in schema.definitions.items():
        try:
            facts.capture.check_read(table)
        except CdcError as error:
            unread[name] = error
    return evidence(case, _CONFIG, unread) if unread else None


def state_not_kept(case: AnyCase) -> Evidence | None:
    """Cancelling the job deletes its checkpoints, and a job that fails can only be cancelled."""
    facts = _facts(case)
    if facts is None or not facts.deleted_on_cancel:
        return None
    setting = {"externalized-checkpoint-retention": "DELETE_ON_CANCELLATION, must be RETAIN_ON_CANCELLATION"}
    return {**evidence(case, STATUS, setting), **state_evidence(case)}


def skips_itself(case: AnyCase) -> Evidence | None:
    """Options with which the job passes over events that it cannot read."""
    facts = _facts(case)
    healing = tuple(getattr(facts.capture, "healing", ())) if facts and facts.capture else ()
    return evidence(case, _CONFIG, {f"setting {n}": one for n, one in enumerate(healing, 1)}) if healing else None


def went_on_elsewhere(case: AnyCase) -> Evidence | None:
    """The job runs, at a server that it was never seen reading: it went on there by itself, whatever that server had.

    Flink CDC compares sets only when it starts, and its stored set is the new server's own within seconds.
    """
    pair, facts = case.both_of_one_server, _facts(case)
    if pair is None or facts is None or not case.streams or case.seen.pipeline.corrected is not Corrected.BEFORE_START:
        return None
    source, servers = pair[0], known_servers(case.seen)
    if not isinstance(source, MySqlFacts) or not servers or source.server_uuid in servers:
        return None
    uuids = {"server_uuid now": source.server_uuid, "server_uuid before": ", ".join(sorted(servers))}
    return {**server_evidence(case, uuids), **offset_evidence(case), **state_evidence(case)}


def restart_evidence(case: AnyCase) -> Evidence:
    """How Flink goes on with a job that fails: it says RESTARTING or RUNNING, not FAILED, until its strategy gives up."""
    facts = _facts(case)
    if facts is None or not facts.restarts:
        return {}
    failures = {"failures that Flink remembers": facts.restarts, "restart strategy": facts.strategy or "not known"}
    return evidence(case, STATUS, failures)


def _facts(case: AnyCase) -> FlinkFacts | None:
    return case.connector if isinstance(case.connector, FlinkFacts) else None


def without_key(case: AnyCase) -> str:
    """Tables without a key: the job cannot replace a row of theirs that is there already."""
    definitions = case.seen.schema.definitions if isinstance(case.seen.schema, SchemaFacts) else {}
    keyless = ", ".join(sorted(name for name, table in definitions.items() if table.keyless))
    return f"{keyless} without a key: what the job sends again would stand there twice" if keyless else ""


def several_sources(case: AnyCase) -> str:
    """A job with several sources, each with a position of its own."""
    facts = _facts(case)
    if facts is None or facts.sources < 2:
        return ""
    return f"the job has {facts.sources} sources of MySQL's log, each with a position of its own: connector.reads says which is meant"


def no_copy(case: AnyCase) -> str:
    """A job whose rows are not those of one table of the source, as they stand there."""
    facts = _facts(case)
    capture = facts.capture if facts else None
    if not isinstance(capture, FlinkCapture):
        return ""
    if capture.between:
        return f"the job does more to the rows than to copy them: {capture.between}"
    others = [f"{one}.{name}" for one, name in capture.reads if f"{one}.{name}" not in case.seen.pipeline.source.tables]
    return f"the job's source reads {', '.join(others)}, which is not one of the pipeline's tables" if others else ""


def numbered_anew(case: AnyCase) -> str:
    """A job whose sink begins without its state at every start, though the move needs that state."""
    if case.seen.pipeline.sink.kind != "hudi":
        return ""
    return "Hudi's operators have other ids in each job that one SQL gateway starts, so Flink leaves their state behind"


def shares_its_job(case: AnyCase) -> str:
    """A source beside others in a job that would lose the state of their sinks."""
    connector = case.seen.pipeline.connector
    return numbered_anew(case) if isinstance(connector, FlinkSettings) and connector.reads else ""


def by_yaml(case: AnyCase) -> str:
    """A job whose source alone cannot be made new."""
    facts = _facts(case)
    return BY_YAML if facts and facts.by_yaml else ""


def _not_built(why: str) -> Blocker:
    return lambda _case: f"the job writes its tables itself: {why}"


PROBLEMS = (
    Problem(
        "CONNECTOR_MISCONFIGURED",
        84,
        "The job has an option that changes rows or leaves some out, so no table is recovered.",
        setting_refused,
    ),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        26,
        "The job takes no checkpoints, so it stores no position: after a failure it begins again from nothing.",
        stores_nothing,
    ),
    Problem(
        "GTID_AHEAD",
        29,
        "The stored set holds transactions that the server has still to write: Flink would run, and silently skip each of them.",
        gtids_ahead,
        (TRANSLATE, FULL),
        about_position=True,
    ),
    Problem(
        "OFFSET_AMBIGUOUS", 41, "Several running jobs have this name, each with a position of its own.", several_jobs
    ),
    Problem(
        "SOURCE_FAILED_OVER",
        51,
        "Another server took over and the job continued there by itself: whether it had all that was read is not known.",
        went_on_elsewhere,
        (TRANSLATE, FULL),
        in_order=True,
    ),
    *CONNECTOR_STATES,
    Problem("CONNECTOR_MISCONFIGURED", 85, "No source of the job reads a table of this pipeline.", tables_not_read),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        91,
        "The job is set to pass over events that it cannot read: what is lost then is never reported.",
        skips_itself,
        WARNING,
    ),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        97,
        "Flink deletes the job's checkpoints when it is cancelled, and a job that fails can only be cancelled.",
        state_not_kept,
        WARNING,
    ),
)

RULES = Rules(
    PROBLEMS,
    remarks=(rows_remark,),
    beside=(Beside(_FAILING, restart_evidence),),
    blockers={
        FULL: (rows_changed, by_yaml, without_key, several_sources, shares_its_job, no_copy),
        DIFF_REPAIR: (_not_built("the rows that differ are not put right by themselves"),),
        NEXT_FILE: (_not_built("what was cut from the log is not put right by itself"),),
        DETOUR: (_not_built("the job's options name one server, and are not changed from here"),),
        TRANSLATE: (by_yaml, several_sources, numbered_anew),
    },
    texts=TEXTS,
)
