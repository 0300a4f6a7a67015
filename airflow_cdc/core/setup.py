"""What a kind asks people for: the questions of `airflow cdc init`, what it builds from the answers, and a connection's form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from airflow_cdc.core.errors import UsageError

# question → answer; "" for an optional one that was left out
Answers: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Question:
    """One answer that a part of a new pipeline needs.

    Attributes:
        key: its name; with dashes, the name of the flag.
        text: the question, and the flag's help.
        default: the value if a person presses Enter. needed: whether "" is refused.
        as_pipeline: the answer is the pipeline's own name by default, without a question.
        example: for the command's help, if there is no default.
    """

    key: str
    text: str
    default: str = ""
    example: str = ""
    needed: bool = True
    as_pipeline: bool = False


@dataclass(frozen=True, slots=True)
class Password:
    """A secret of a connection. It is never a flag, because flags show in ps and in the shell's history.

    Attributes:
        of: its owner, as in "the password of …".
        variable: the environment variable that may hold it.
    """

    of: str
    variable: str


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the part in pipelines.yaml, with the comment beside it."""

    name: str
    value: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class NewConnection:
    """An Airflow connection to create, unless that id exists. `password`: the question for its password."""

    conn_id: str
    conn_type: str
    host: str = ""
    port: int | None = None
    login: str = ""
    schema: str = ""
    extra: str = ""
    password: Password | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """What a kind contributes to a new pipeline. The functions are called with the pipeline's name and the answers.

    Attributes:
        keys: the keys of the part, without `kind`. connections: the connections that it names. notes: comment lines
            after the keys.
    """

    questions: tuple[Question, ...] = ()
    keys: Callable[[str, Answers], Sequence[Key]] = field(default=lambda _name, _answers: ())
    connections: Callable[[str, Answers], Sequence[NewConnection]] = field(default=lambda _name, _answers: ())
    notes: tuple[str, ...] = ()


def flag(key: str) -> str:
    """The command's flag of a question."""
    return f"--{key.replace('_', '-')}"


def host_and_port(text: str, port: int, *, key: str) -> tuple[str, int]:
    """The parts of "host:port" or "host". Raises UsageError for a malformed address."""
    host, _, number = text.partition(":")
    if number and not number.isdigit():
        raise UsageError(f"{text!r} is not host:port", where=flag(key), todo="Write one like db.example:3306.")
    return host, int(number or port)


# a value in a JSON schema: a type, a type's name, a list of allowed values, or a default
SchemaValue = str | int | list[str] | list[str | None] | None


def form_field(label: str, description: str = "", **schema: SchemaValue) -> dict[str, object]:
    """One field of a connection's form in Airflow (its airflow/provider_info.schema.json); text unless `schema` says otherwise."""
    shown: dict[str, object] = {"label": label, "schema": {"type": ["string", "null"], **schema}}
    return {**shown, "description": description} if description else shown


# of an address that is reached by HTTPS
HTTPS = {
    "verify": form_field("Check the TLS certificate", type=["boolean", "null"], default=True),
    "ca_file": form_field("TLS: CA file", "Path; takes the place of the system's authorities"),
    "cert_file": form_field("TLS: client certificate", "Path"),
    "key_file": form_field("TLS: client key", "Path; if it is not in the certificate's file"),
    "key_password": form_field("TLS: password of the client key", format="password"),
}
