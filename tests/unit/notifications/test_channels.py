"""One message through each provider's own notifier, to small real servers: what arrives, and what is said if it can't."""

from __future__ import annotations

import email
import json
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pagerduty import EventsApiV2Client

from airflow_cdc.alerting.severity import Severity
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.notifications.channels import CHANNELS, Message, PolicyNotifier, notifier_for
from tests.unit.http_server import Answer, Scripted, serving

FIRING = Message(
    "shop: GTID_PURGED since 09:00 <b> [shop:GTID_PURGED:3]",
    title="shop: GTID_PURGED",
    severity=Severity.CRITICAL,
    key="shop:GTID_PURGED:3",
    link="https://airflow.example/cdc/runbook#gtid_purged",
)
RESOLVED = Message("shop: resolved", "shop: resolved: GTID_PURGED", Severity.CRITICAL, FIRING.key, resolved=True)
NO_CONTEXT: Any = {}


Events = list[tuple[str, dict[str, Any]]]

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise's own import


@pytest.fixture
def server() -> Iterator[Scripted]:
    with serving() as script:
        script.answers = [Answer(202, {})]
        yield script


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Events:
    """What PagerDuty's client is asked to send: it takes no address but PagerDuty's own, over https."""
    sent: Events = []
    monkeypatch.setattr(
        EventsApiV2Client, "send_event", lambda _self, **event: sent.append((_self.auth_method.secret, event))
    )
    return sent


def connect(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    """An Airflow connection named ops."""
    monkeypatch.setenv("AIRFLOW_CONN_OPS", json.dumps(fields))


def bodies(server: Scripted) -> list[Any]:
    return [body for _, _, body, _ in server.requests]


@pytest.mark.parametrize(
    ("message", "action"), [(FIRING, "trigger"), (RESOLVED, "resolve")], ids=["firing", "resolved"]
)
def test_pagerduty_opens_an_incident_per_key_and_closes_it(
    events: Events, monkeypatch: pytest.MonkeyPatch, message: Message, action: str
) -> None:
    connect(monkeypatch, conn_type="pagerduty_events", password="r0uting")
    notifier_for("ops", message).notify(NO_CONTEXT)
    ((key, event),) = events
    assert (key, event["action"], event["dedup_key"]) == ("r0uting", action, "shop:GTID_PURGED:3")
    assert (event["payload"]["severity"], event["payload"]["source"]) == ("critical", "shop")
    assert event["payload"]["summary"] == message.title
    assert ("links" in event) is bool(message.link)


def test_a_mere_message_to_pagerduty_is_an_event_of_its_own(events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, conn_type="pagerduty_events", password="r0uting")
    notifier_for("ops", Message("approve a repair", "shop: a recovery waits for an answer")).notify(NO_CONTEXT)
    ((_, event),) = events
    assert (event["action"], "dedup_key" in event) == ("trigger", False)
    assert event["payload"]["severity"] == "warning"


def test_a_slack_webhook_takes_it_with_its_severity(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers = [Answer(200, b"ok", content_type="text/plain")]
    connect(monkeypatch, conn_type="slackwebhook", host=server.url, password="/T0/B0/x")
    notifier_for("ops", FIRING).notify(NO_CONTEXT)
    ((_, path, body, _),) = server.requests
    assert path == "/T0/B0/x"
    assert body["text"].startswith("[critical] shop: GTID_PURGED")


@pytest.mark.parametrize(("message", "kind"), [(FIRING, "failure"), (RESOLVED, "success")], ids=["firing", "resolved"])
def test_apprise_reaches_what_has_no_provider(
    server: Scripted, monkeypatch: pytest.MonkeyPatch, message: Message, kind: str
) -> None:
    url = server.url.replace("http://", "json://")
    connect(monkeypatch, conn_type="apprise", extra={"config": {"path": url, "tag": "all"}})
    notifier_for("ops", message).notify(NO_CONTEXT)
    (body,) = bodies(server)
    assert (body["title"], body["type"]) == (message.title, kind)


def test_mail_has_the_severity_in_its_subject_and_no_markup_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"to": "dba@shop.example", "from_email": "cdc@shop.example", "disable_ssl": True, "disable_tls": True}
    with mail_server() as (port, mails):
        connect(monkeypatch, conn_type="smtp", host="127.0.0.1", port=port, extra=extra)
        notifier_for("ops", FIRING).notify(NO_CONTEXT)
    (mail,) = mails
    assert "Subject: [critical] shop: GTID_PURGED" in mail
    assert "X-CDC-Key: shop:GTID_PURGED:3" in mail
    (part,) = [one for one in email.message_from_string(mail).walk() if one.get_content_type() == "text/html"]
    assert "09:00 &lt;b&gt;" in bytes(part.get_payload(decode=True)).decode()


@pytest.mark.parametrize(("conn_type", "field"), [("slack", "channel"), ("smtp", "to")])
def test_a_connection_that_lacks_whom_to_tell_says_so(
    monkeypatch: pytest.MonkeyPatch, conn_type: str, field: str
) -> None:
    connect(monkeypatch, conn_type=conn_type, host="127.0.0.1", password="x")
    with pytest.raises(ConfigError, match=f"no extra field {field}.*connection ops"):
        notifier_for("ops", FIRING)


@pytest.mark.parametrize("conn_type", CHANNELS)
def test_a_provider_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, conn_type: str) -> None:
    connect(monkeypatch, conn_type=conn_type, extra={"channel": "#ops", "to": "a@b.example"})
    channel = CHANNELS[conn_type]
    monkeypatch.setitem(sys.modules, channel.notifier.partition(":")[0], None)
    with pytest.raises(ConfigError, match=f"pip install {channel.distribution}"):
        notifier_for("ops", FIRING)


def test_one_who_cannot_be_told_holds_nothing_up_and_no_address_is_logged(
    server: Scripted, events: Events, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = [Answer(403, {})]
    monkeypatch.setenv(
        "AIRFLOW_CONN_DEAF", json.dumps({"conn_type": "slackwebhook", "host": server.url, "password": "s3cret"})
    )
    connect(monkeypatch, conn_type="pagerduty_events", password="r0uting")
    PolicyNotifier(conn_ids=("nobody", "deaf", "ops"), message=FIRING).notify(NO_CONTEXT)
    assert [event["action"] for _, event in events] == ["trigger"]
    told = capsys.readouterr().out  # where Airflow's own logging writes
    assert "nobody was not notified" in told
    assert "deaf was not notified" in told
    assert "s3cret" not in told


@contextmanager
def mail_server() -> Iterator[tuple[int, list[str]]]:
    """A server that takes mail as RFC 5321 has it, and nothing more; its port, and the mails it took."""
    mails: list[str] = []

    class Session(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.say("220 ready")
            while line := self.rfile.readline().decode().strip():
                verb = line[:4].upper()
                if verb == "DATA":
                    self.say("354 go on")
                    mails.append("\n".join(iter(lambda: self.rfile.readline().decode().rstrip("\r\n"), ".")))
                self.say("221 bye" if verb == "QUIT" else "250 ok")
                if verb == "QUIT":
                    return

        def say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1], mails
        finally:
            server.shutdown()
            thread.join()


def test_a_text_of_another_system_calls_nobody_and_moves_no_cursor() -> None:
    hostile = Message("trace: <!channel> <@U1> <https://evil.example|here> a&b \x1b[2J \x9b \u202e", "title \u202e")
    for name in ("slack", "slackwebhook"):
        text = str(CHANNELS[name].arguments("c", {"channel": "x"}, hostile)["text"])
        assert "<" not in text
        assert "&lt;!channel&gt;" in text
        assert "a&amp;b" in text
    assert hostile.text.endswith("\\u001b[2J \\u009b \\u202e")
    assert hostile.title == "title \\u202e"
