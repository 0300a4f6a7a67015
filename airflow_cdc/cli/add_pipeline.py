"""`airflow cdc init --pipeline …`: one pipeline from flags or a few questions, with its connections, checked at once."""

from __future__ import annotations

import getpass
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from airflow_cdc.cli.questions import CONTROL, PARTS, SPARK, TABLES, every, kind_question, of_kinds, setups
from airflow_cdc.cli.run import write_file
from airflow_cdc.config.registry import load_registry, parse_registry
from airflow_cdc.core.errors import UsageError
from airflow_cdc.core.pipeline import NO_SINK
from airflow_cdc.core.setup import Answers, Key, NewConnection, Password, Question, Setup, flag
from airflow_cdc.kinds import CONNECTORS, SINKS

# of the template: where its example pipeline begins, and where what is the same for every pipeline does
EXAMPLE: Final = "  shop:"
REST: Final = "    # Everything below is optional"
_COMMENT_AT: Final = 40
_SPARK_CONN: Final = "spark_default"


@dataclass(frozen=True, slots=True)
class NewPipeline:
    """A pipeline to be added: the kind of each of its parts, and the answers to their questions."""

    name: str
    kinds: Mapping[str, str]
    answers: Answers

    @property
    def parts(self) -> Iterator[tuple[str, Setup]]:
        """Each part with how it is set up."""
        for part, kind in self.kinds.items():
            yield part, setups(part)[kind]

    @property
    def spark(self) -> bool:
        """Whether anything of it runs with Spark."""
        return self.kinds["sink"] != NO_SINK.kind


def asked(args: Namespace) -> NewPipeline:
    """The flags, and what a person at a terminal answers for those that are missing. Raises UsageError without one."""
    flags = {question.key: str(getattr(args, question.key) or "") for question in every()}
    new = NewPipeline(args.pipeline, _kinds(flags), flags)
    questions = list(_questions(new))
    _refuse_others(flags, {question.key for question in questions})
    answers = {question.key: flags[question.key] or _answer(question, args.pipeline) for question in questions}
    if absent := [question.key for question in questions if question.needed and not answers[question.key]]:
        todo = f"Add {', '.join(map(flag, absent))}."
        raise UsageError(f"the options do not fully describe pipeline {args.pipeline}", todo=todo)
    return NewPipeline(
        args.pipeline, new.kinds, {**{f"{part}_kind": kind for part, kind in new.kinds.items()}, **answers}
    )


def _kinds(flags: Mapping[str, str]) -> dict[str, str]:
    """Part → its kind. A control store is only chosen where the sink keeps none."""
    kinds: dict[str, str] = {}
    for part in PARTS:
        if part != CONTROL:
            fitting = CONNECTORS[kinds["connector"]].through if part == "transport" else ()
            kinds[part] = _kind(part, flags, fitting)
    if SINKS[kinds["sink"]].control is None:
        kinds[CONTROL] = _kind(CONTROL, flags)
    return kinds


def _kind(part: str, flags: Mapping[str, str], fitting: Sequence[str] = ()) -> str:
    """The kind that a flag names, or else the one that a flag is a question of, or else what a person says.

    `fitting`: the kinds that fit the parts before it; () if all do. A single one is not asked about.
    """
    known, question = setups(part), kind_question(part)
    if not flags[question.key] and len(fitting) == 1 and fitting[0] in known:
        return fitting[0]
    hinted = [name for name, setup in known.items() if any(flags[one.key] for one in setup.questions)]
    chosen = flags[question.key] or (hinted[0] if len(hinted) == 1 else "")
    kind = chosen or (_answer(question, "") if len(known) > 1 else question.default)
    if kind not in known:
        raise UsageError(
            f"{kind!r} is not a kind of {part} that `init` knows",
            where=flag(question.key),
            todo=f"Write one of {', '.join(known)}; declare any other in pipelines.yaml by hand.",
        )
    return kind


def _questions(new: NewPipeline) -> Iterator[Question]:
    yield from of_kinds(new.kinds)
    if new.spark:
        yield SPARK


def _refuse_others(flags: Mapping[str, str], known: set[str]) -> None:
    others = [key for key, value in flags.items() if value and key not in known and not key.endswith("_kind")]
    if others:
        options = ", ".join(map(flag, others))
        raise UsageError(f"{options}: no part of this pipeline has that option", todo="Leave it out, or name its kind.")


def _answer(question: Question, pipeline: str) -> str:
    """What a person at a terminal says, or else the default."""
    if question.as_pipeline:
        return pipeline
    return _ask(question) if sys.stdin.isatty() else question.default


def _ask(question: Question) -> str:
    shown = f" [{question.default}]" if question.default else ""
    return input(f"{question.text}{shown}: ").strip() or question.default


def add_to_registry(path: Path, new: NewPipeline, template: str) -> str:
    """Add the pipeline to the registry, keeping the file's comments; an invalid result leaves the file unchanged."""
    before = path.read_text() if path.exists() else None
    if before is not None and new.name in load_registry(path):
        raise UsageError(f"pipeline {new.name!r} already exists", where=str(path), todo="Edit it there.")
    head = template[: template.index(EXAMPLE)] if before is None else before.rstrip("\n") + "\n\n"
    text = head + "\n".join(_block(new)) + "\n" + _rest(new, template)
    parse_registry(text, str(path))
    write_file(path, text)
    return f"{path} ({'written' if before is None else 'pipeline added'})"


def _block(new: NewPipeline) -> Iterator[str]:
    """The lines of the pipeline's parts."""
    yield _line(f"  {new.name}:", f"letters, digits and _; names the DAGs (cdc_apply__{new.name})")
    for part, setup in new.parts:
        yield f"    {part}:"
        yield f"      kind: {new.kinds[part]}"
        for key in setup.keys(new.name, new.answers):
            yield _key(key)
        if part == "source":
            yield from _tables(new.answers[TABLES.key])
        for note in setup.notes:
            yield f"      # {note}"
    if new.spark:
        yield "    spark:"
        yield f"      conn_id: {_SPARK_CONN}"


def _tables(names: str) -> Iterator[str]:
    yield _line("      tables:", "schema.table; each becomes <namespace>.<table> in the sink")
    for table in names.split(","):
        if table.strip():
            yield f"        - {scalar(table.strip())}"


def _key(key: Key) -> str:
    return _line(f"      {key.name}: {scalar(key.value)}", key.comment)


def _line(text: str, comment: str) -> str:
    return f"{text:<{_COMMENT_AT - 1}} # {comment}" if comment else text


def scalar(value: str) -> str:
    """The value as YAML text: in quotes only where it would not be read as the same text."""
    plain = re.fullmatch(r"[\w.$-]+", value) is not None and yaml.safe_load(value) == value
    return value if plain else yaml.safe_dump(value, default_style='"', width=10_000).strip()


def _rest(new: NewPipeline, template: str) -> str:
    """What follows the parts: the policy with its defaults, and comments."""
    rest = template[template.index(REST) :]
    return rest.replace("__shop", f"__{new.name}").replace("notify: [ops]", "notify: []")


def connections(new: NewPipeline) -> dict[str, dict[str, object]]:
    """The Airflow connections that the pipeline names, by id. Raises UsageError for an address that is none."""
    wanted = [one for _, setup in new.parts for one in setup.connections(new.name, new.answers)]
    if new.spark:
        wanted.append(NewConnection(_SPARK_CONN, "spark", new.answers[SPARK.key]))
    return {one.conn_id: _fields(one) for one in wanted}


def _fields(one: NewConnection) -> dict[str, object]:
    names = ("conn_type", "host", "port", "login", "schema", "extra")
    values = {name: value for name in names if (value := getattr(one, name))}
    return {**values, "password": _password(one.password)} if one.password else values


def _password(asked_for: Password) -> str:
    if asked_for.variable in os.environ:
        return os.environ[asked_for.variable]
    if not sys.stdin.isatty():
        raise UsageError(
            f"the password of {asked_for.of} is not known", todo=f"Put it in the variable {asked_for.variable}."
        )
    return getpass.getpass(f"The password of {asked_for.of}: ")


def create(wanted: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Create the connections in Airflow's database; one that exists, there or elsewhere, is left as it is."""
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    missing = [conn_id for conn_id in wanted if not _exists(conn_id)]
    with create_session() as session:
        session.add_all(Connection(conn_id=conn_id, **wanted[conn_id]) for conn_id in missing)
    return {f"connection {conn_id}": "created" if conn_id in missing else "exists, left as it is" for conn_id in wanted}


def _exists(conn_id: str) -> bool:
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        return False
    return True


def keys() -> Sequence[str]:
    """The names of the answers, for the command's flags."""
    return [question.key for question in every()]
