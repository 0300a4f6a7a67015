"""The base of both availability sensors: poke on the worker, or defer to a trigger with the same probe."""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException

from airflow_cdc.core.errors import CdcError, SourceError, UnknownStateError, foreseen
from airflow_cdc.triggers.base import Answer, ProbeTrigger, State

if TYPE_CHECKING:
    from airflow_cdc.core.endpoint import DataEndpoint


class AvailabilitySensor(BaseSensorOperator):
    """Succeeds once a position can be read from the source, and fails at once if it never can be again.

    :param conn_id: the source's connection (`cdc_mysql` or `mysql`).
    :param deferrable: wait in the triggerer instead of holding a worker's slot.
    """

    def __init__(self, *, conn_id: str, deferrable: bool | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id
        self.deferrable = (
            conf.getboolean("operators", "default_deferrable", fallback=False) if deferrable is None else deferrable
        )

    @abstractmethod
    def trigger(self) -> ProbeTrigger[DataEndpoint]:
        """The trigger with this sensor's probe; the worker uses the same object."""

    @abstractmethod
    def prepared(self) -> DataEndpoint:
        """What `ProbeTrigger.probe` needs, resolved on the worker. Raises ConfigError."""

    def execute(self, context: Context) -> object:
        if self.deferrable:
            self._defer()
        return super().execute(context)

    def _defer(self) -> NoReturn:
        self.defer(
            trigger=self.trigger(),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout + self.poke_interval),
        )

    def poke(self, context: Context) -> bool | PokeReturnValue:  # noqa: ARG002 - Airflow calls it so
        prepared = self.prepared()
        trigger = self.trigger()
        try:
            answer = trigger.probe(prepared)
        except Exception as error:
            answer = Answer(State.UNKNOWN, str(foreseen(error, "the probe")))
        event = answer.to_event(**trigger.facts())
        self.log.info("%s: %s", answer.state, answer.reason)
        return PokeReturnValue(is_done=self.settled(event), xcom_value=event)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - Airflow calls it so
        """Resume after the trigger fired; ends as a poke would. Raises what `settled` raises, AirflowSensorTimeout.

        Airflow turns a timeout into a skip for `soft_fail`, and only its own errors for `never_fail`.
        """
        try:
            available = self.settled(event)
        except CdcError as error:
            if self.never_fail:
                raise AirflowSkipException(str(error)) from error
            raise
        if not available:
            raise AirflowSensorTimeout(f"{event['reason']} (connection {self.conn_id})")
        return event

    def settled(self, event: dict[str, Any]) -> bool:
        """True when available, False to keep polling. Raises SourceError (lost) or UnknownStateError (bad set-up)."""
        where = f"connection {self.conn_id}"
        if event["state"] == State.LOST:
            raise SourceError(
                event["reason"], where=where, todo="Trigger cdc_recovery for the pipelines that read here."
            )
        if event["state"] == State.ERROR:
            raise UnknownStateError(
                event["reason"], where=where, todo="Check the connection and what the sensor waits for."
            )
        return bool(event["state"] == State.AVAILABLE)
