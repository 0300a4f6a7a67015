"""Notifiers: the type of an Airflow connection selects a class of that system's own provider."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from airflow.sdk import BaseHook, BaseNotifier, Context

from airflow_cdc.alerting.severity import Severity
from airflow_cdc.core.errors import CdcError, ConfigError
from airflow_cdc.core.text import printable

Options = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Message:
    """A message to people.

    Attributes:
        text: one paragraph, plain.
        title: one line, for a subject or an incident's name.
        key: receivers group messages by it: one key opens one incident, and `resolved` closes it; "" for a message without an incident.
        link: the runbook's URL; "" if there is none.
    """

    text: str
    title: str
    severity: Severity = Severity.WARNING
    key: str = ""
    resolved: bool = False
    link: str = ""

    def __post_init__(self) -> None:
        for name in ("text", "title"):
            object.__setattr__(self, name, printable(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Channel:
    """A notifier of a provider: its class, the distribution that contains it, and its arguments for a message.

    `arguments` receives the connection's id, its extra fields and the message.
    """

    notifier: str
    distribution: str
    arguments: Callable[[str, Options, Message], dict[str, object]]
    needs: tuple[str, ...] = ()  # extra fields that the connection must have

    def build(self, conn_id: str, extra: Options, message: Message) -> BaseNotifier:
        """The notifier. Raises ConfigError naming the missing package or extra field."""
        if missing := [name for name in self.needs if not extra.get(name)]:
            raise ConfigError(
                f"the connection has no extra field {', '.join(missing)}",
                where=f"connection {conn_id}",
                todo=f'Add it to the connection\'s extra: {{"{missing[0]}": "…"}}.',
            )
        module, _, name = self.notifier.partition(":")
        try:
            notifier: BaseNotifier = getattr(importlib.import_module(module), name)(
                **self.arguments(conn_id, extra, message)
            )
        except ImportError as error:
            raise ConfigError(
                f"{self.distribution} is not installed",
                where=f"connection {conn_id}",
                todo=f"pip install {self.distribution}",
            ) from error
        return notifier


def _webhook(conn_id: str, _extra: Options, message: Message) -> dict[str, object]:
    return {"conn_id": conn_id, "text": message.text}


def _slack_webhook(conn_id: str, _extra: Options, message: Message) -> dict[str, object]:
    return {"slack_webhook_conn_id": conn_id, "text": _marked(message)}


def _slack(conn_id: str, extra: Options, message: Message) -> dict[str, object]:
    return {"slack_conn_id": conn_id, "text": _marked(message), "channel": extra["channel"]}


def _pagerduty(conn_id: str, _extra: Options, message: Message) -> dict[str, object]:
    """One incident per key. A message without a key is an event of its own, and nothing resolves it."""
    return {
        "pagerduty_events_conn_id": conn_id,
        "summary": message.title,
        "severity": str(message.severity),
        "source": message.key.partition(":")[0] or "airflow",
        "action": "resolve" if message.resolved else "trigger",
        "dedup_key": message.key or None,
        "custom_details": message.text,
        "links": [{"href": message.link, "text": "What to do"}] if message.link.startswith("http") else None,
    }


def _mail(conn_id: str, extra: Options, message: Message) -> dict[str, object]:
    """`from_email` is the connection's own extra field, which the provider reads."""
    link = f'<p><a href="{escape(message.link)}">What to do</a></p>' if message.link else ""
    return {
        "smtp_conn_id": conn_id,
        "to": extra["to"],
        "subject": f"[{message.severity}] {message.title}",
        "html_content": f"<p>{escape(message.text)}</p>{link}",
        # mails of one incident stay in one thread, and filters see its severity
        "custom_headers": {"X-CDC-Severity": str(message.severity), "X-CDC-Key": message.key},
    }


def _apprise(conn_id: str, _extra: Options, message: Message) -> dict[str, object]:
    """Uses Apprise's own words for the severity; Microsoft Teams and a hundred others are reached this way."""
    words = {Severity.CRITICAL: "failure", Severity.ERROR: "failure", Severity.WARNING: "warning"}
    kind = "success" if message.resolved else words.get(message.severity, "info")
    return {"apprise_conn_id": conn_id, "body": message.text, "title": message.title, "notify_type": kind}


def _marked(message: Message) -> str:
    """Slack's own form: `<!channel>` in another system's text would call everybody."""
    word = "resolved" if message.resolved else str(message.severity)
    text = message.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"[{word}] {text}"


CHANNELS: Mapping[str, Channel] = {
    "slackwebhook": Channel(
        "airflow.providers.slack.notifications.slack_webhook:SlackWebhookNotifier",
        "apache-airflow-providers-slack",
        _slack_webhook,
    ),
    "slack": Channel(
        "airflow.providers.slack.notifications.slack:SlackNotifier",
        "apache-airflow-providers-slack",
        _slack,
        needs=("channel",),
    ),
    "pagerduty_events": Channel(
        "airflow.providers.pagerduty.notifications.pagerduty:PagerdutyNotifier",
        "apache-airflow-providers-pagerduty",
        _pagerduty,
    ),
    "smtp": Channel(
        "airflow.providers.smtp.notifications.smtp:SmtpNotifier",
        "apache-airflow-providers-smtp",
        _mail,
        needs=("to",),
    ),
    "apprise": Channel(
        "airflow.providers.apprise.notifications.apprise:AppriseNotifier",
        "apache-airflow-providers-apprise",
        _apprise,
    ),
}
WEBHOOK = Channel("airflow_cdc.notifications.webhook:WebhookNotifier", "airflow-provider-cdc", _webhook)


class PolicyNotifier(BaseNotifier):
    """Notifies every connection in a pipeline's `policy.notify`. One that cannot be reached is logged and delays nothing.

    :param conn_ids: connections, whose type selects the notifier (`CHANNELS`), any other type is a webhook.
    :param message: the message.
    """

    def __init__(self, *, conn_ids: Sequence[str], message: Message) -> None:
        super().__init__()
        self.conn_ids = conn_ids
        self.message = message

    def notify(self, context: Context) -> None:
        """Send the message to each connection."""
        for conn_id in self.conn_ids:
            try:
                notifier_for(conn_id, self.message).notify(context)
            except CdcError as error:
                self.log.warning("%s was not notified: %s", conn_id, error)
            except Exception as error:
                # each provider raises its own errors, whose texts may hold the address, which is a secret
                self.log.warning("%s was not notified: %s", conn_id, type(error).__name__)


def notifier_for(conn_id: str, message: Message) -> BaseNotifier:
    """The notifier for a connection's type. Raises ConfigError, or Airflow's own error if there is no such connection."""
    conn = BaseHook.get_connection(conn_id)
    channel = CHANNELS.get(str(conn.conn_type or ""), WEBHOOK)
    return channel.build(conn_id, dict(conn.extra_dejson), message)
