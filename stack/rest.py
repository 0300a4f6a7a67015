"""A small JSON-over-HTTP call for the servers of the stack, standard library only."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from stack.errors import StackError


class RestError(StackError):
    """A call failed; `status` is the HTTP status, or None if there was no answer; `body` the whole answer."""

    def __init__(self, message: str, status: int | None = None, body: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.body = body


def call(
    method: str, url: str, body: Any = None, *, headers: Mapping[str, str] | None = None, timeout: float = 90.0
) -> Any:
    """One call; the decoded JSON answer, or None for an empty one."""
    data = None if body is None else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
    request = urllib.request.Request(url, data=data, method=method, headers=sent)  # noqa: S310 (loopback addresses)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        body = error.read().decode(errors="replace")
        raise RestError(f"{method} {url} gave {error.code}: {body[:800]}", error.code, body) from error
    except OSError as error:
        raise RestError(f"{method} {url}: {error}") from error
    return json.loads(text) if text else None
