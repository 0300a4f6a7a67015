"""Posts one line of text to a webhook: a pipeline's problem, and what happens next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import httpx
from airflow.sdk import BaseHook, BaseNotifier, Context
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from airflow_cdc.core.errors import CdcError

if TYPE_CHECKING:
    from airflow.sdk import Connection

TIMEOUT_SECONDS = 10.0
ATTEMPTS = 3
FIRST_WAIT_SECONDS = 1.0
_BUSY = 429


class WebhookNotifier(BaseNotifier):
    """POST `{"text": …}` to the URL of an Airflow connection: the format that chat systems accept.

    :param conn_id: an HTTP connection; its password, if any, is sent as a bearer token.
    :param text: the message (templated).
    """

    template_fields: Sequence[str] = ("conn_id", "text")

    def __init__(self, *, conn_id: str, text: str) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.text = text

    def notify(self, context: Context) -> None:  # noqa: ARG002 - Airflow calls it so
        """Send the message, with three tries if the webhook is busy or unreachable. Raises CdcError if it is not accepted."""
        conn = BaseHook.get_connection(self.conn_id)
        retrying = Retrying(
            retry=retry_if_exception(may_pass),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_exponential(FIRST_WAIT_SECONDS),
            reraise=True,
        )
        try:
            retrying(self._post, conn)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CdcError(
                f"the notification was rejected: {type(error).__name__}",
                where=f"connection {self.conn_id}",
                todo="Check the connection's URL and token.",
            ) from None

    def _post(self, conn: Connection) -> None:
        headers = {"Authorization": f"Bearer {conn.password}"} if conn.password else {}
        answer = httpx.post(address(conn), json={"text": self.text}, headers=headers, timeout=TIMEOUT_SECONDS)
        answer.raise_for_status()


def may_pass(error: BaseException) -> bool:
    """Whether the message was certainly not accepted, and may be accepted a moment later."""
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        return status == _BUSY or status >= 500
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)


def address(conn: Connection) -> str:
    """The URL of a connection's webhook: its host, which may be a whole URL, its port, and the extra field `path`."""
    host = str(conn.host or "")
    base = host if "://" in host else f"{conn.schema or 'https'}://{host}"
    port = f":{conn.port}" if conn.port else ""
    path = str(conn.extra_dejson.get("path") or "")
    return f"{base.rstrip('/')}{port}{path}"
