"""Canal that writes to RabbitMQ, on real servers: diagnosed, stopped and moved; and what loses its events in silence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.core.error_texts import match
from airflow_cdc.core.observation import SinkTableFacts
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.decisions.diagnosis.diagnose import diagnose
from airflow_cdc.decisions.diagnosis.strategy import make_plan
from airflow_cdc.flows.lateness import load_observation
from airflow_cdc.flows.move_offset import move
from airflow_cdc.flows.observe import observe, store_observation
from airflow_cdc.kinds import rules_for
from airflow_cdc.sinks.opensearch.kind import OpenSearchSettings
from airflow_cdc.transports.rabbitmq.client import RabbitMqTransport
from airflow_cdc.transports.rabbitmq.kind import RabbitMqSettings
from stack.canal import CanalServer, CanalSettings, make_canal
from stack.errors import StackError
from stack.mysql import MySqlServer
from stack.process import wait_until
from stack.rabbitmq import RabbitServer
from tests.integration.canal.over_rabbitmq import STREAM, canal_properties, declare, endpoint_of
from tests.integration.canal.support import WAIT_S, Scene, pipeline_run

pytestmark = pytest.mark.slow


@dataclass
class Made:
    """What a test sets before Canal starts."""

    rabbit: RabbitServer
    mysql: MySqlServer
    name: str
    folder: Path

    def canal(self, **properties: str) -> CanalServer:
        """A Canal server over the database, with these lines of canal.properties changed; dots are written as _."""
        file, position, *_ = self.mysql.execute("SHOW MASTER STATUS")[0]
        changed = {name.replace("_", "."): value for name, value in properties.items()}
        settings = CanalSettings(
            self.name,
            f"{self.mysql.host}:{self.mysql.port}",
            self.mysql.debezium,
            "",
            self.name,
            (str(file), int(position)),
            more={"canal.instance.filter.regex": rf"{self.name}\..*"},
            server={**canal_properties(self.rabbit, self.name), **changed},
        )
        return make_canal(self.folder / "canal", settings)

    def scene(self, canal: CanalServer, queue: str = "", stream: str = "") -> Scene:
        """The pipeline; `queue`: the one that is read instead of Canal's own; `stream`: where its messages are moved to."""
        settings = RabbitMqSettings("rabbitmq", "r", queue, stream)
        through = RabbitMqTransport(settings.at(endpoint_of(self.rabbit))), settings
        return Scene(self.name, self.mysql, canal, pipeline_run(self.name, self.mysql, through, canal))

    def depth(self, queue: str) -> int:
        """How many messages a queue that is no stream holds."""
        with self.rabbit.connect() as connection:
            return int(connection.channel().queue_declare(queue, passive=True).method.message_count)


@pytest.fixture
def made(rabbit: RabbitServer, mysql: MySqlServer, databases: Callable[..., str], tmp_path: Path) -> Iterator[Made]:
    """A database with an empty table `t`; what the test starts is stopped."""
    name = databases()
    mysql.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    one = Made(rabbit, mysql, name, tmp_path)
    yield one
    if (tmp_path / "canal").exists():
        CanalServer(tmp_path / "canal", name).stop()
    with rabbit.connect() as connection:
        for queue in (name, f"{name}.stream"):
            connection.channel().queue_delete(queue)


def arrived(made: Made, scene: Scene, count: int) -> None:
    """Wait until so many messages are in the queue, and Canal has stored that it sent them: before, it is a new pipeline."""
    wait_until(lambda: made.depth(made.name) == count or None, timeout=WAIT_S, what=f"{count} messages in the queue")
    scene.wait_stored()


def test_a_classic_queue_is_diagnosed_and_moved_and_refused_for_a_sink(made: Made) -> None:
    """Canal's own queue is a classic one: enough for a pipeline without a sink."""
    scene = made.scene(made.canal())
    scene.canal.start()
    scene.insert(1)
    arrived(made, scene, 1)
    assert scene.diagnosis().code == "HEALTHY", scene.diagnosis()
    scene.connector.stop(made.name)
    assert scene.diagnosis().code == "CONNECTOR_STOPPED"

    cursor = scene.cursor()
    assert cursor is not None
    scene.insert(2)
    file, position = scene.end()
    scene.insert(3)
    place = {**cursor["postion"], "journalName": file, "position": position}
    move(scene.run, {**cursor, "postion": place}, who="a person", shown=cursor)
    scene.connector.resume(made.name)
    scene.connector.wait_running(made.name)
    arrived(made, scene, 2)

    sink = OpenSearchSettings("opensearch", made.name, "s")
    pipeline = replace(scene.run.pipeline, sink=sink)
    observation = replace(observe(scene.run, watch=0.0), pipeline=pipeline)
    rules = rules_for(pipeline)
    diagnosis = diagnose(observation, rules)
    assert diagnosis.code == "TRANSPORT_MISCONFIGURED"
    assert "a classic queue" in diagnosis.evidence[made.name]
    for strategy in ("full_snapshot", "diff_repair"):
        blockers = [blocker(rules.case(observation)) for blocker in rules.blockers[strategy]]
        assert any("is a classic queue: only the events of a stream queue can be read again" in why for why in blockers)
    assert make_plan(diagnosis, pipeline.policy, observation, rules).refused


def test_a_stream_beside_canal_s_queue_is_read(made: Made) -> None:
    queue = f"{made.name}.stream"
    declare(made.rabbit, queue, made.name, STREAM)
    scene = made.scene(made.canal(), queue)
    scene.canal.start()
    for number in (1, 2, 3):
        scene.insert(number)
    arrived(made, scene, 3)
    assert scene.ids() == [1, 2, 3]
    assert scene.diagnosis().code == "HEALTHY", scene.diagnosis()


def test_the_messages_of_canal_s_own_queue_are_moved_to_a_stream(made: Made) -> None:
    """A diagnosis moves none, and names another consumer and what was dead-lettered."""
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{made.name}.dead"}
    scene = made.scene(made.canal(), stream=f"{made.name}.stream")
    scene.canal.start()
    for number in (1, 2, 3):
        scene.insert(number)
    arrived(made, scene, 3)
    assert scene.diagnosis().code == "HEALTHY", scene.diagnosis()
    assert scene.ids() == []
    transport: Any = scene.run.clients.transport
    assert transport.gathered([made.name])[made.name].partitions == {0: (0, 3)}
    assert (scene.ids(), made.depth(made.name)) == ([1, 2, 3], 0)
    assert transport.endpoint.stream == f"{made.name}.stream"

    pipeline = replace(scene.run.pipeline, sink=OpenSearchSettings("opensearch", made.name, "s"))
    every = rules_for(pipeline)
    # this pipeline has no table in its sink yet, which stands before a warning
    asked = tuple(problem for problem in every.problems if problem.code == "TRANSPORT_MISCONFIGURED")
    rules = replace(every, problems=asked)

    def judged() -> str | None:
        found = diagnose(replace(observe(scene.run, watch=0.0), pipeline=pipeline), rules)
        return json.dumps(found.evidence) if found.code == "TRANSPORT_MISCONFIGURED" else None

    with made.rabbit.connect() as connection:
        channel = connection.channel()
        channel.queue_declare(f"{made.name}.dead", durable=True)
        channel.queue_delete(made.name)
        channel.queue_declare(made.name, durable=True, arguments={**dead, "x-message-ttl": 1})
        channel.queue_bind(made.name, "canal", routing_key=made.name)
        told = wait_until(judged, timeout=WAIT_S, what="the message-ttl to be named")
        assert "message-ttl 1: older messages are removed" in told
        channel.basic_publish("", made.name, b"expires")
        wait_until(
            lambda: "put 1 messages in queue" in (judged() or "") or None, timeout=WAIT_S, what="the dead letter"
        )
        channel.basic_consume(made.name, lambda *_: None)
        wait_until(lambda: "1 other consumers" in (judged() or "") or None, timeout=WAIT_S, what="the consumer")
        channel.queue_delete(f"{made.name}.dead")


@dataclass(frozen=True)
class Stamped:
    """A sink of which nothing is asked but the stamp of its table."""

    stamp: Stamp

    def facts(self, _namespace: str, _table: str) -> SinkTableFacts:
        return SinkTableFacts(exists=True, head=1, stamp=self.stamp)


def waits(scene: Scene, applied: int) -> tuple[int | None, str]:
    """How many events wait if so many are applied, and what a diagnosis says of them; it is stored, as by every look."""
    sink: Any = Stamped(Stamp(0, None, {scene.name: TopicOffsets("", {0: applied})}))
    run, every = replace(scene.run, clients=replace(scene.run.clients, sink=sink)), rules_for(scene.run.pipeline)
    # this Canal reads by file and position, which a pipeline with a sink may not
    asked = tuple(problem for problem in every.problems if problem.code in {"SINK_BEHIND", "HEALTHY"})
    seen = observe(run, watch=0.0)
    found = diagnose(seen, replace(every, problems=asked))
    store_observation(run, seen, found)
    stored = load_observation(run)
    assert stored is not None
    said = found.evidence.get(f"waiting for {scene.name}.t", "").partition(" [")[0]
    return stored.waiting, said if found.code == "SINK_BEHIND" else found.code


def test_messages_that_wait_in_front_of_the_stream_are_counted(made: Made) -> None:
    scene = made.scene(made.canal(), stream=f"{made.name}.stream")
    policy = replace(scene.run.pipeline.policy, max_lag=2)
    sink = OpenSearchSettings("opensearch", made.name, "s")
    scene = replace(scene, run=replace(scene.run, pipeline=replace(scene.run.pipeline, sink=sink, policy=policy)))
    transport = scene.run.clients.transport
    scene.canal.start()
    for number in (1, 2, 3):
        scene.insert(number)
    arrived(made, scene, 3)
    transport.gathered([made.name])
    assert waits(scene, applied=3) == (0, "HEALTHY")
    for number in (4, 5):
        scene.insert(number)
    arrived(made, scene, 2)
    assert waits(scene, applied=3) == (2, "HEALTHY")  # nobody has seen them wait before
    assert waits(scene, applied=1)[0] == 4

    def late() -> str | None:
        said = waits(scene, applied=3)[1]
        return said if said != "HEALTHY" else None

    text = "0 events and {} that were not brought there yet, 2 of them for longer than policy.max_lag of 2 s"
    assert wait_until(late, timeout=WAIT_S, what="the messages to be late") == text.format(2)
    scene.insert(6)
    arrived(made, scene, 3)
    assert waits(scene, applied=3) == (3, text.format(3))

    transport.gathered([made.name])
    assert waits(scene, applied=6) == (0, "HEALTHY")
    scene.insert(7)
    arrived(made, scene, 1)
    assert waits(scene, applied=6) == (1, "HEALTHY")  # its time begins anew
    assert waits(scene, applied=3)[0] == 4


def test_a_routing_key_that_leads_nowhere_loses_events_in_silence(made: Made) -> None:
    """Canal binds its queue by rabbitmq.routingKey, and sends by canal.mq.topic."""
    scene = made.scene(made.canal(rabbitmq_routingKey="other"))
    scene.canal.start()
    scene.insert(1)
    scene.wait_stored()
    assert made.depth(made.name) == 0
    diagnosis = scene.diagnosis()
    assert diagnosis.code == "CONNECTOR_MISCONFIGURED"
    assert f"queue {made.name} is bound to" in diagnosis.evidence, diagnosis
    assert "direct exchange 'canal' by 'other'" in diagnosis.evidence[f"queue {made.name} is bound to"]


def test_a_queue_that_was_deleted_is_named(made: Made) -> None:
    scene = made.scene(made.canal())
    scene.canal.start()
    scene.insert(1)
    arrived(made, scene, 1)
    with made.rabbit.connect() as connection:
        connection.channel().queue_delete(made.name)
    diagnosis = scene.diagnosis()
    assert diagnosis.code == "TRANSPORT_MISCONFIGURED"
    assert "there is no such queue" in diagnosis.evidence[made.name]


def test_canal_does_not_start_on_a_queue_of_another_kind_with_the_server_s_own_text(made: Made) -> None:
    declare(made.rabbit, made.name, made.name, STREAM)
    scene = made.scene(made.canal())
    with pytest.raises(StackError):
        scene.canal.start()
    text = (made.folder / "canal" / "logs" / "canal.out").read_text()
    known = match(rules_for(scene.run.pipeline).texts, text)
    assert known is not None, text[-2000:]
    assert known.code == "TRANSPORT_MISCONFIGURED"
    assert "PRECONDITION_FAILED - inequivalent arg 'x-queue-type'" in text


def test_another_transport_than_canal_s_is_named(made: Made) -> None:
    scene = made.scene(made.canal(canal_serverMode="kafka"))
    diagnosis = scene.diagnosis()
    others = [one.evidence for one in diagnosis.others if one.code == "CONNECTOR_MISCONFIGURED"]
    named = [diagnosis.evidence, *others]
    assert json.dumps(named).count("this pipeline's transport.kind is rabbitmq") == 1
