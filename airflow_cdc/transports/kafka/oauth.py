"""SASL/OAUTHBEARER: a token that a server issues for the client's id and secret."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import httpx
from kafka.net.sasl.oauth import AbstractTokenProvider

from airflow_cdc.core.errors import TransportError
from airflow_cdc.decisions import oauth

TODO: Final = (
    "Check sasl.oauthbearer.token.endpoint.url, sasl.oauthbearer.scope, login (client id) and password (client"
    " secret) of the Kafka connection."
)


@dataclass(frozen=True, slots=True)
class TokenClient:
    """Where tokens are issued, and for whom."""

    url: str
    user: str
    password: str = field(repr=False)
    scope: str = ""
    timeout: float = 30.0

    def ask(self) -> oauth.Issued:
        """A new token. Raises TransportError without what the server wrote: it may repeat the secret."""
        try:
            answer = httpx.post(
                self.url,
                data=oauth.asked(self.scope),
                auth=httpx.BasicAuth(self.user, self.password),
                headers={"Accept": "application/json"},
                timeout=self.timeout,
            )
            given = oauth.issued(answer.json() if answer.is_success else None)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._failed(type(error).__name__) from None
        except ValueError:
            raise self._failed("the answer is not JSON") from None
        if not given.token:
            raise self._failed(f"HTTP {answer.status_code}")
        return given

    def _failed(self, reason: str) -> TransportError:
        return TransportError(f"no token was issued: {reason}", where=f"token server {self.url}", todo=TODO)


class Tokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """A client's tokens, as kafka-python asks for them: one is used again until shortly before it ends."""

    def __init__(self, client: TokenClient, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._client, self._clock = client, clock
        self._lock = threading.Lock()
        self._token, self._until = "", 0.0

    def token(self) -> str:
        """A valid token. Raises TransportError."""
        with self._lock:
            if self._clock() >= self._until:
                given = self._client.ask()
                self._token, self._until = given.token, self._clock() + given.seconds
            return self._token

    def extensions(self) -> dict[str, object]:
        """SASL extensions: none."""
        return {}
