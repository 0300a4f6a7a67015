"""How a request proves who asks: login and password, a token, a token that a server issues (OAuth)."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Final

import httpx

from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.decisions import oauth

_TOKEN_TODO: Final = "Check token_url, scope, login (client id) and password (client secret) of the Connect connection."  # noqa: S105


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks.

    Attributes:
        user: the login; with `token_url`, the client id.
        password: its password; with `token_url`, the client secret; without `user`, a bearer token.
        token_url: where a token is issued for them (OAuth 2.0, client credentials); "": no token is asked for.
        scope: what to ask a token for.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    token_url: str = ""
    scope: str = ""

    def auth(self) -> httpx.Auth | None:
        """What httpx adds to each request; None: nothing."""
        if self.token_url:
            return ClientCredentials(self)
        if self.user:
            return httpx.BasicAuth(self.user, self.password)
        return Bearer(self.password) if self.password else None


class Bearer(httpx.Auth):
    """A token that somebody gave us."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


class ClientCredentials(httpx.Auth):
    """A token from an OAuth server, asked for anew before it ends, and once if it is refused."""

    requires_response_body = True

    def __init__(self, identity: Identity, clock: Callable[[], float] = time.monotonic) -> None:
        self._identity = identity
        self._clock = clock
        self._token = ""
        self._until = 0.0

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        fresh = self._clock() >= self._until
        if fresh:
            self._keep((yield self._asking()))
        request.headers["Authorization"] = f"Bearer {self._token}"
        answer = yield request
        if answer.status_code == httpx.codes.UNAUTHORIZED and not fresh:
            self._keep((yield self._asking()))
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request

    def _asking(self) -> httpx.Request:
        who = self._identity
        basic = httpx.BasicAuth(who.user, who.password)
        request = httpx.Request(
            "POST", who.token_url, data=oauth.asked(who.scope), headers={"Accept": "application/json"}
        )
        return next(basic.auth_flow(request))

    def _keep(self, answer: httpx.Response) -> None:
        """Raises ConnectorError without what the server wrote: it may repeat the secret."""
        given = _issued(answer)
        if not given.token:
            raise ConnectorError(
                f"no token was issued (HTTP {answer.status_code})",
                where=f"token server {self._identity.token_url}",
                todo=_TOKEN_TODO,
                status=answer.status_code,
            )
        self._token, self._until = given.token, self._clock() + given.seconds


def _issued(answer: httpx.Response) -> oauth.Issued:
    try:
        return oauth.issued(answer.json() if answer.is_success else None)
    except ValueError:
        return oauth.issued(None)
