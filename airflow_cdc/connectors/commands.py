"""Starting and stopping a server by its operator's own commands. Nothing is guessed: what is not known is an error."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from airflow_cdc.core.errors import ConfigError, ConnectorError
from airflow_cdc.core.secrets import mask_text
from airflow_cdc.core.settings import Form, key, read_text

_RUNS: Final = 0
_DOES_NOT_RUN: Final = 3  # of a service that is not running (LSB, systemctl is-active)
_SHOWN: Final = 500
# of a command's output; a secret in it becomes three characters
_READ: Final = 16 * _SHOWN
# The worker's other variables hold Airflow's key, its database and its connections, which a server and its log have no use for.
_PASSED_ON: Final = ("PATH", "HOME", "LANG", "TZ")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(=.*)?", re.DOTALL)


def _command(written: object) -> str:
    text = read_text(written)
    try:
        shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"is no command: {error}", todo="Close the quotes.") from None
    return text


COMMAND: Final = Form("command", _command)


def _variable(written: object) -> str:
    text = read_text(written)
    if not _NAME.fullmatch(text):
        raise ConfigError("is no variable of the environment", todo="Write NAME, or NAME=value.")
    return text


VARIABLE: Final = Form("variable", _variable)


def environment_key() -> Any:
    """The setting that names what the commands get of the worker's environment."""
    return key(
        "Variables that the commands get beside PATH, HOME, LANG and TZ: names of the worker's, or NAME=value.",
        form=VARIABLE,
        default=(),
    )


def environment(names: Sequence[str], own: Mapping[str, str]) -> dict[str, str]:
    """What commands are given of this process's environment `own`: a few variables, and those named, or set, in `names`."""
    pairs = (name.partition("=") for name in names)
    named = {name: value if equals else own.get(name) for name, equals, value in pairs}
    given = {**{name: own.get(name) for name in _PASSED_ON}, **named}
    return {name: value for name, value in given.items() if value is not None}


class Commanded(Protocol):
    """The endpoint of a server that is controlled by commands, as lists of words.

    `environment`: names of variables that the commands get beside the usual ones, or NAME=value. `timeout`: how long `status`
    may take, in seconds.
    """

    @property
    def where(self) -> str: ...
    @property
    def start(self) -> Sequence[str]: ...
    @property
    def stop(self) -> Sequence[str]: ...
    @property
    def status(self) -> Sequence[str]: ...
    @property
    def environment(self) -> Sequence[str]: ...
    @property
    def timeout(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands `start`, `stop` and `status` of one server."""

    endpoint: Commanded

    def running(self) -> bool:
        """Whether the server runs. Raises ConnectorError where `status` says neither yes nor no."""
        code, output = self._run("status", self.endpoint.status, self.endpoint.timeout)
        if code not in (_RUNS, _DOES_NOT_RUN):
            raise self._failed(
                "status", f"ended with {code}, which says neither that it runs (0) nor that not (3)", output
            )
        return code == _RUNS

    def start(self, timeout: float) -> None:
        """Run the command. Raises ConnectorError unless it ends with 0 in time."""
        self._must("start", self.endpoint.start, timeout)

    def stop(self, timeout: float) -> None:
        """Run the command. Raises ConnectorError unless it ends with 0 in time; the server may still be ending."""
        self._must("stop", self.endpoint.stop, timeout)

    def _must(self, word: str, argv: Sequence[str], timeout: float) -> None:
        code, output = self._run(word, argv, timeout)
        if code:
            raise self._failed(word, f"ended with {code}", output)

    def _run(self, word: str, argv: Sequence[str], timeout: float) -> tuple[int, str]:
        """Exit status and output. A file takes the output: a server that was started keeps a pipe open for ever."""
        if not argv:
            raise self._failed(word, "is not configured", "")
        with tempfile.TemporaryFile() as out:
            try:
                done = subprocess.run(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    timeout=timeout,
                    check=False,
                    env=environment(self.endpoint.environment, os.environ),
                    start_new_session=True,  # a server that was started outlives the task
                )
            except subprocess.TimeoutExpired:
                raise self._failed(word, f"did not end within {timeout:g} s", "") from None
            except OSError as error:
                raise self._failed(word, f"cannot be run: {error.strerror}", "") from None
            out.seek(max(0, out.seek(0, os.SEEK_END) - _READ))
            return done.returncode, out.read().decode(errors="replace")

    def _failed(self, word: str, what: str, output: str) -> ConnectorError:
        tail = mask_text(output.strip())[-_SHOWN:]
        return ConnectorError(
            f"the command connector.{word} {what}{': ' + tail if tail else ''}",
            where=self.endpoint.where,
            todo=f"Run it by hand on the worker, as Airflow's user, and correct connector.{word} in pipelines.yaml.",
        )
