"""A detour to a replica and back (INV 27): what is sent, what counts as read, what is left out, and what is never lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_cdc.core.errors import ConfigError, OffsetRejectedError, SchemaError, SourceError
from airflow_cdc.core.offset import OffsetEntry
from airflow_cdc.core.recovery import OpenRecovery, ReplicaVisit
from airflow_cdc.flows import offsets
from airflow_cdc.flows import replica as flow
from airflow_cdc.flows.recovery import change
from airflow_cdc.flows.run import Run
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import MySqlPosition, mysql_position
from tests.unit.builders import OTHER, UUID
from tests.unit.clocks import Clock, waiting
from tests.unit.flows.recovering import KEY, LOST, now, recovering

NONE = GtidSet.parse("")
CHANGED = {"shop.orders": ("column a: only in the source",)}
AWAY = OpenRecovery("r", epoch=4, tables=("shop.orders",), strategy="replica_detour", backup=OffsetEntry(KEY, LOST))


def source_set(upto: int) -> GtidSet:
    """The source's transactions up to that one."""
    return GtidSet.parse(f"{UUID}:1-{upto}")


def own_set(upto: int) -> GtidSet:
    """Transactions that were executed on the replica itself."""
    return GtidSet.parse(f"{OTHER}:1-{upto}")


@dataclass
class Server:
    """One of two servers that replicate from each other. `refuses`: why a connector cannot go on here."""

    done: GtidSet
    gone: GtidSet = NONE
    refuses: tuple[str, ...] | SourceError = ()
    login: str = "login"
    asked: list[str] = field(default_factory=list)

    def executed(self, *, under_way: bool = True) -> GtidSet:
        self.asked.append(f"executed {under_way}")
        return self.done

    def purged(self) -> GtidSet:
        return self.gone

    def known(self, text: str) -> GtidSet:
        return GtidSet.parse(text)

    def faults(self, _conn_id: str, _source: Any, _stored: Any) -> tuple[str, ...]:
        if isinstance(self.refuses, SourceError):
            raise self.refuses
        return self.refuses

    def read_by(self, position: Any, _end: Any = None) -> GtidSet | None:
        return None if position is None else mysql_position(position).gtids

    def log_end(self) -> MySqlPosition:
        return MySqlPosition("b.000001", 4, self.done)

    def from_the_oldest(self, read: GtidSet) -> MySqlPosition:
        return MySqlPosition("theirs.000001", 4, read)

    def after(self, read: GtidSet) -> MySqlPosition:
        return MySqlPosition("ours.000009", 4, read)


class World:
    """A source, its replicas, and a connector whose stored offset and address a step changes."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, recovery: OpenRecovery, source: Server, **others: Server
    ) -> None:
        self.source, self.others = source, others
        self.offset: dict[str, Any] | None = dict(LOST)
        self.away, self.order = False, list[str]()
        self.history_records = 5
        made = recovering(recovery)
        clients: Any = made.clients
        clients.source.replication = source
        replicas: Mapping[str, Any] = {
            name: SimpleNamespace(replication=one, where=f"{name}:3306") for name, one in others.items()
        }
        connector: Any = clients.connector
        connector.committed_offset.side_effect = lambda *_: self.offset
        connector.is_away.side_effect = lambda _name: self.away
        connector.state.return_value = SimpleNamespace(state="RUNNING", running=True, failures=())
        connector.stop.side_effect = lambda *_, **__: self.order.append("stop")
        connector.resume.side_effect = lambda *_: self.order.append("resume")
        connector.point_at.side_effect = lambda *_: self._moved(True)
        connector.point_back.side_effect = lambda *_: self._moved(False)
        clients.control.ledger_get.return_value = {}
        monkeypatch.setattr(flow, "write", self._write)
        monkeypatch.setattr(flow, "_history_size", lambda _run: self.history_records)
        monkeypatch.setattr(flow.connector, "change_settings", lambda *_: None)  # type: ignore[attr-defined]
        monkeypatch.setattr(flow.connector, "restore", lambda *_: self.order.append("settings"))  # type: ignore[attr-defined]
        self.clock: Clock = waiting(monkeypatch, flow)
        self.run: Run = replace(made, clients=replace(clients, replicas=replicas))

    def _moved(self, away: bool) -> None:
        self.away = away
        self.order.append("to the replica" if away else "to the source")

    def _write(self, _run: Run, key: Any, before: Any, value: Any) -> None:
        assert (key, before) == (KEY, self.offset)
        self.offset = dict(value)
        self.order.append("write")

    def reads(self, *sets: GtidSet) -> None:
        """Let the connector read on while a step waits."""
        left = list(sets)

        def more() -> None:
            if left and self.offset is not None:
                self.offset = {**self.offset, "gtids": str(left.pop(0))}

        self.clock.on_sleep = more

    @property
    def gtids(self) -> GtidSet:
        assert self.offset is not None
        return GtidSet.parse(self.offset["gtids"])


# ---- going there ------------------------------------------------------------------------------------------------------------


def test_the_replicas_own_transactions_count_as_read_and_are_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that filters, or that somebody wrote to: its rows are not the source's."""
    world = World(
        monkeypatch, AWAY, Server(source_set(80), gone=source_set(40)), near=Server(source_set(80) | own_set(3))
    )
    starts: list[GtidSet] = []
    connector: Any = world.run.clients.connector
    connector.resume.side_effect = lambda *_: starts.append(world.gtids)
    world.reads(source_set(60) | own_set(3), source_set(80) | own_set(3))
    done = flow.detour(world.run)
    assert starts == [source_set(10) | own_set(3)]
    assert (done["replica"], done["server"], done["kept"]) == ("near", "near:3306", False)
    assert now(world.run).replica == ReplicaVisit("near", own=str(own_set(3)), history_before=5)


def test_the_connector_stands_while_its_offset_and_then_its_address_change(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, AWAY, Server(source_set(80)), near=Server(source_set(80)))
    world.reads(source_set(80))
    flow.detour(world.run)
    assert world.order == ["stop", "write", "to the replica", "resume"]
    assert world.offset is not None
    assert world.offset["file"] == "theirs.000001"


def test_the_replica_is_asked_first_so_that_what_the_source_executes_meanwhile_is_not_taken_for_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    source, near = Server(source_set(80), asked=order), Server(source_set(80))

    def theirs(**_: Any) -> GtidSet:
        order.append("replica")
        return near.done

    monkeypatch.setattr(near, "executed", theirs)
    world = World(monkeypatch, AWAY, source, near=near)
    world.reads(source_set(80))
    flow.detour(world.run)
    assert order[:2] == ["replica", "executed True"]


def test_a_second_round_sends_what_was_the_replicas_own_and_has_reached_the_source_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It counted as read in the first round, and was never sent: better to send a transaction again than never."""
    visited = replace(AWAY, replica=ReplicaVisit("near", own=str(own_set(3)), history_before=2))
    world = World(
        monkeypatch,
        visited,
        Server(source_set(90) | own_set(2)),
        near=Server(source_set(90) | own_set(3)),
    )
    world.offset = {**LOST, "gtids": str(source_set(80) | own_set(3))}
    starts: list[GtidSet] = []
    connector: Any = world.run.clients.connector
    connector.resume.side_effect = lambda *_: starts.append(world.gtids)
    world.reads(source_set(90) | own_set(3))
    flow.detour(world.run)
    assert starts == [source_set(80) | GtidSet.parse(f"{OTHER}:3")]
    assert now(world.run).replica == ReplicaVisit("near", own=str(own_set(3)), history_before=2)


def test_it_lasts_until_all_is_read_that_the_replica_has_and_that_the_source_has_purged_by_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Server(source_set(99), gone=source_set(40))
    world = World(monkeypatch, AWAY, source, near=Server(source_set(80)))
    steps = iter([source_set(80), source_set(84), source_set(85)])

    def more() -> None:
        source.gone = source_set(85)
        assert world.offset is not None
        world.offset = {**world.offset, "gtids": str(next(steps))}

    world.clock.on_sleep = more
    flow.detour(world.run)
    assert world.gtids == source_set(85)


def test_a_connector_that_reads_there_already_goes_on_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was killed and cleared."""
    visited = replace(AWAY, replica=ReplicaVisit("near", own=str(own_set(3))))
    world = World(monkeypatch, visited, Server(source_set(80)), near=Server(source_set(80) | own_set(3)))
    world.away, world.offset = True, {**LOST, "gtids": str(source_set(80) | own_set(3))}
    assert flow.detour(world.run)["replica"] == "near"
    assert world.order == []


def test_the_first_replica_that_can_stand_in_is_taken_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(
        monkeypatch,
        AWAY,
        Server(source_set(80)),
        silent=Server(NONE, refuses=SourceError("no route to it")),
        behind=Server(source_set(5), refuses=("it lags",)),
        near=Server(source_set(80)),
        far=Server(source_set(80)),
    )
    world.reads(source_set(80))
    assert flow.detour(world.run)["replica"] == "near"


def test_where_no_replica_can_each_is_named_with_its_reason_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(
        monkeypatch,
        AWAY,
        Server(source_set(80)),
        silent=Server(NONE, refuses=SourceError("no route to it")),
        behind=Server(source_set(5), refuses=("it lags", "it filters")),
    )
    with pytest.raises(SourceError, match=r"silent: no route to it.*; behind: it lags, it filters") as refused:
        flow.detour(world.run)
    assert "full_snapshot" in refused.value.todo
    assert (world.order, world.away) == (["stop"], False)


def test_a_replica_that_is_no_longer_listed_ends_the_detour_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, replace(AWAY, replica=ReplicaVisit("gone")), Server(source_set(80)))
    with pytest.raises(ConfigError, match=r"reads from gone, which source\.replicas no longer lists"):
        flow.detour(world.run)


def test_a_connector_without_a_set_of_transactions_cannot_go_to_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, AWAY, Server(source_set(80)), near=Server(source_set(80)))
    world.offset = None
    with pytest.raises(OffsetRejectedError, match="no stored GTID set"):
        flow.detour(world.run)
    assert "write" not in world.order


@pytest.mark.parametrize(("gone", "again"), [(40, False), (79, False), (80, True)])
def test_a_return_that_was_begun_goes_on_unless_the_source_has_purged_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, gone: int, again: bool
) -> None:
    written = replace(
        AWAY, written_at="2026-11-21T09:00:00+00:00", replica=ReplicaVisit("near", own="", history_before=5)
    )
    world = World(monkeypatch, written, Server(source_set(90), gone=source_set(gone)), near=Server(source_set(90)))
    world.offset = {**LOST, "gtids": str(source_set(79))}
    world.reads(source_set(90))
    assert flow.detour(world.run)["kept"] is not again
    assert bool(now(world.run).written_at) is not again


# ---- coming back --------------------------------------------------------------------------------------------------------------


def returning(monkeypatch: pytest.MonkeyPatch, world: World) -> list[str]:
    """The rest of a return, in order: it is started, past the source's position, and closed."""
    monkeypatch.setattr(flow, "wait_past", lambda run, _position: offsets.committed(run))
    monkeypatch.setattr(flow.connector, "restore_settings", lambda _run: world.order.append("settings"))  # type: ignore[attr-defined]
    control: Any = world.run.clients.control
    control.close_recovery.side_effect = lambda *_: world.order.append("closed")
    return world.order


def visiting(monkeypatch: pytest.MonkeyPatch, source: Server, read: GtidSet, own: GtidSet = NONE) -> World:
    """A connector that has read these transactions at the replica, of which `own` counted as read from the beginning."""
    visited = replace(AWAY, replica=ReplicaVisit("near", own=str(own), history_before=5))
    world = World(monkeypatch, visited, source, near=Server(read))
    world.away, world.offset = True, {**LOST, "gtids": str(read)}
    return world


def test_the_connector_goes_on_at_the_source_after_all_that_it_has_read_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The offset is proven before the address changes, and the address before it starts."""
    world = visiting(monkeypatch, Server(source_set(80)), source_set(70) | own_set(3), own_set(3))
    order = returning(monkeypatch, world)
    done = flow.return_to_source(world.run)
    assert world.gtids == source_set(70)
    assert order == ["stop", "write", "to the source", "resume", "settings", "closed"]
    assert (done["closed"], done["left_out"]) == (True, str(own_set(3)))
    control: Any = world.run.clients.control
    control.note_server.assert_called_once()
    control.release.assert_called_once_with("r")


def test_what_only_counted_as_read_is_sent_by_the_source_that_has_it_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    world = visiting(monkeypatch, Server(source_set(80) | own_set(3)), source_set(70) | own_set(5), own_set(3))
    returning(monkeypatch, world)
    flow.return_to_source(world.run)
    assert world.gtids == source_set(70)


def test_transactions_that_are_still_being_committed_at_the_source_are_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connector would skip one whose rows it has not seen."""
    source = Server(source_set(80))
    world = visiting(monkeypatch, source, source_set(70))
    returning(monkeypatch, world)
    flow.return_to_source(world.run)
    assert source.asked == ["executed False"]


def test_inv_26_a_source_that_lost_what_the_connector_had_read_from_it_gets_no_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = visiting(monkeypatch, Server(source_set(8)), source_set(70))
    with pytest.raises(OffsetRejectedError, match=f"the source does not have {UUID}:9-10") as refused:
        flow.return_to_source(world.run)
    assert refused.value.reasons == ("GTID_NOT_CONTAINED",)
    assert (world.order, world.away, now(world.run).written_at) == (["stop"], True, "")


def test_a_source_that_has_purged_more_than_was_read_sends_the_connector_to_the_replica_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = visiting(monkeypatch, Server(source_set(90), gone=source_set(71)), source_set(70))
    with pytest.raises(SourceError, match=f"the source has purged {UUID}:71") as refused:
        flow.return_to_source(world.run)
    assert "clear the task detour_connector" in refused.value.todo
    assert (world.order, world.away, now(world.run).written_at) == (["stop"], True, "")


def test_what_was_read_is_noted_before_the_offset_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards the position is another server's, and a second try could not tell."""
    world = visiting(monkeypatch, Server(source_set(80)), source_set(70))
    returning(monkeypatch, world)
    noted: list[str | None] = []

    def write(run: Run, *more: Any) -> None:
        noted.append(now(run).replica.read)
        world._write(run, *more)

    monkeypatch.setattr(flow, "write", write)
    flow.return_to_source(world.run)
    assert noted == [str(source_set(70))]


def test_a_second_try_after_the_write_takes_what_was_noted_and_writes_nothing_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = visiting(monkeypatch, Server(source_set(80)), source_set(70))
    change(world.run, lambda recovery: replace(recovery, written_at="2026-11-21T09:00:00+00:00"))
    order = returning(monkeypatch, world)
    flow.return_to_source(world.run)
    assert order == ["to the source", "resume", "settings", "closed"]


def test_a_return_that_was_killed_after_closing_only_lets_the_lease_go(monkeypatch: pytest.MonkeyPatch) -> None:
    world = visiting(monkeypatch, Server(source_set(80)), source_set(70))
    control: Any = world.run.clients.control
    control.ledger_get.return_value = {"recovery": "closed"}
    assert flow.return_to_source(world.run) == {"closed": True}
    control.release.assert_called_once_with("r")
    assert world.order == []


# ---- the schema history ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "own", "doubted"), [(6, True, True), (5, True, False), (6, False, False)],
    ids=["it grew", "it did not grow", "nothing is left out"],
)  # fmt: skip
def test_definitions_that_were_recorded_with_a_replicas_own_transactions_are_rebuilt(
    monkeypatch: pytest.MonkeyPatch, records: int, own: bool, doubted: bool
) -> None:
    """They name transactions that the source never has: a restart would skip them, and decode by older ones."""
    extra = own_set(3) if own else NONE
    world = visiting(monkeypatch, Server(source_set(80)), source_set(70) | extra, extra)
    world.history_records = records
    order = returning(monkeypatch, world)
    monkeypatch.setattr(flow.connector, "history", lambda _run: SimpleNamespace(newest_ms=7))  # type: ignore[attr-defined]
    monkeypatch.setattr(flow, "_doubt_history", lambda _run: order.append("doubted"))
    rebuilt: list[Any] = []
    monkeypatch.setattr(flow.connector, "history_rebuilt", lambda *told: rebuilt.append(told[1:]))  # type: ignore[attr-defined]
    monkeypatch.setattr(flow.connector, "from_the_start_again", lambda *_: order.append("again"))  # type: ignore[attr-defined]
    flow.return_to_source(world.run)
    between = ["doubted", "resume", "again"] if doubted else ["resume"]
    assert order == ["stop", "write", "to the source", *between, "settings", "closed"]
    assert rebuilt == ([(7, list(world.run.pipeline.source.tables), "return_connector")] if doubted else [])
    assert now(world.run).history.since is None


def test_inv_11_a_table_that_changed_at_the_source_since_is_not_decoded_with_rebuilt_definitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Events from before its change would be decoded with the definition from after it."""
    world = visiting(monkeypatch, Server(source_set(80)), source_set(70))
    asked: list[Any] = []

    def differences(definitions: Any, *, server: str) -> Mapping[str, tuple[str, ...]]:
        asked.append((definitions, server))
        return CHANGED

    known = SimpleNamespace(differences=differences)
    monkeypatch.setattr(flow.connector, "history", lambda _run: known)  # type: ignore[attr-defined]
    monkeypatch.setattr(flow, "defined", lambda _run: {"shop.orders": "now"})
    with pytest.raises(SchemaError, match=r"shop\.orders changed at the source after the position"):
        flow._doubt_history(world.run)
    assert asked == [({"shop.orders": "now"}, "shop")]


# ---- giving it up -----------------------------------------------------------------------------------------------------------------


def test_a_detour_that_is_given_up_leaves_the_connector_at_its_source_with_its_first_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = visiting(monkeypatch, Server(source_set(80)), source_set(70) | own_set(3), own_set(3))
    flow.abandon(world.run)
    assert world.order == ["stop", "to the source", "settings", "write"]
    assert (world.offset, world.away) == (LOST, False)


@pytest.mark.parametrize(("records", "doubted"), [(6, True), (5, False)])
def test_definitions_that_a_detour_recorded_before_it_was_given_up_are_doubted(
    monkeypatch: pytest.MonkeyPatch, records: int, doubted: bool
) -> None:
    world = visiting(monkeypatch, Server(source_set(80)), source_set(70))
    world.history_records = records
    flow.abandon(world.run)
    assert now(world.run).history.doubted is doubted


def test_a_connector_that_had_no_offset_before_the_detour_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    world = visiting(monkeypatch, Server(source_set(80)), source_set(70))
    change(world.run, lambda recovery: replace(recovery, backup=OffsetEntry(KEY, None)))
    flow.abandon(world.run)
    assert "write" not in world.order
