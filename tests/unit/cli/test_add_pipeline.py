"""`airflow cdc init --pipeline`: the registry keeps its comments, connections are made once, nothing is half written."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.models.connection import Connection
from airflow.utils.session import create_session
from sqlalchemy import delete, select

from airflow_cdc.cli import add_pipeline as added
from airflow_cdc.cli import definition, init
from airflow_cdc.config.registry import load_registry
from airflow_cdc.connectors.canal.kind import CanalSettings
from airflow_cdc.core.check import Check
from airflow_cdc.core.pipeline import Corrected, SourceSpec
from airflow_cdc.sources.mariadb.kind import MariaDbSettings
from airflow_cdc.sources.postgres.kind import PostgresSettings
from tests.e2e.walking import blocks
from tests.paths import ROOT
from tests.unit.conftest import Answer

FLAGS = (
    "init", "--pipeline", "bank", "--mysql", "db2:3307", "--tables", "bank.accounts, bank.moves", "--connector", "bank-c",
    "--kafka", "broker:9092", "--catalog", "lake2", "--catalog-extra", '{"type": "rest", "uri": "https://c"}',
)  # fmt: skip


@pytest.fixture(autouse=True)
def clean(airflow_db: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No connection is left behind, and no server is asked."""
    forget()
    monkeypatch.setenv("CDC_MYSQL_PASSWORD", "s3cret-new")
    monkeypatch.setattr(init, "pipeline_checks", lambda args: iter([Check(args.pipeline[0], "source", "ok", "fine")]))
    yield
    forget()


def forget() -> None:
    with create_session() as session:
        session.execute(delete(Connection))


def stored() -> dict[str, Connection]:
    with create_session() as session:
        return {one.conn_id: one for one in session.scalars(select(Connection))}


def test_a_pipeline_is_added_beside_another(cdc: Callable[..., Answer], registry: Path) -> None:
    before = registry.read_text()
    answer = cdc(*FLAGS, "-o", "json")
    assert answer.status == 0, answer.err
    assert registry.read_text().startswith(before.rstrip("\n"))
    made = load_registry(registry)["bank"]
    assert (made.source.tables, made.source.conn_id) == (("bank.accounts", "bank.moves"), "bank_mysql")
    assert (made.connector.name, made.sink.where) == ("bank-c", "lake2.bank")
    assert "# the server that the connector reads" in registry.read_text()
    connections = stored()
    assert set(connections) == {"bank_mysql", "bank_connect", "bank_kafka", "lake2", "spark_default"}
    assert (connections["bank_mysql"].host, connections["bank_mysql"].port) == ("db2", 3307)
    assert connections["bank_mysql"].password == "s3cret-new"
    assert json.loads(connections["bank_kafka"].extra or "") == {"bootstrap.servers": "broker:9092"}
    assert "s3cret-new" not in answer.out + answer.err
    assert answer.data["checks"][0]["state"] == "ok"


def test_the_dag_files_are_written_too(cdc: Callable[..., Answer], registry: Path, tmp_path: Path) -> None:
    before = registry.read_text()
    nowhere = cdc(*FLAGS, "--stub", str(tmp_path / "nowhere"))
    assert (nowhere.status, registry.read_text(), stored()) == (2, before, {})
    (tmp_path / "dags").mkdir()
    answer = cdc(*FLAGS, "--stub", str(tmp_path / "dags"), "-o", "json")
    assert answer.status == 0, answer.err
    assert "cdc_recovery.py" in answer.data["stubs"]
    assert (tmp_path / "dags" / "cdc_recovery.py").exists()


def exported(line: str) -> tuple[str, str]:
    """The variable that a line for a shell sets, and to what."""
    word, assignment = shlex.split(line)
    assert word == "export"
    name, _, value = assignment.partition("=")
    return name, value


def test_dag_files_go_where_a_new_airflow_looks_for_them_whether_or_not_the_folder_is_there(
    cdc: Callable[..., Answer], registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path / "home" / "dags"))
    answer = cdc(*FLAGS, "--stub", "-o", "json")
    assert answer.status == 0, answer.err
    assert {path.name for path in (tmp_path / "home" / "dags").iterdir()} == set(init.STUBS)
    assert not any("DAG_BUNDLE" in line for line in answer.data[init.NEXT])


def test_init_ends_with_lines_that_a_shell_takes_up_to_the_first_copy(
    cdc: Callable[..., Answer], registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = {"name": "theirs", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}}
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps([theirs]))
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_PACKAGES", "org.example:theirs:1")
    monkeypatch.delenv("AIRFLOW__CDC__SPARK_JARS", raising=False)
    answer = cdc(*FLAGS)
    assert answer.status == 0, answer.err
    # below the table, whole: a table wraps what is long
    lines = answer.out.partition("Do this next.")[2].strip().splitlines()[2:]
    (bundle, value), (jars, packages) = map(exported, lines[:2])
    assert bundle == "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"
    assert [one["name"] for one in json.loads(value)] == ["theirs", init.BUNDLE]
    assert Path(json.loads(value)[1]["kwargs"]["path"], "cdc_recovery.py").exists()
    assert jars == "AIRFLOW__CDC__SPARK_PACKAGES"
    assert packages.startswith("org.example:theirs:1,org.apache.iceberg:iceberg-spark-runtime")
    assert lines[2:] == ["airflow dags reserialize", "airflow cdc doctor bank", "airflow cdc recover bank --wait"]
    # what is set is not asked for twice
    monkeypatch.setenv(bundle, value)
    monkeypatch.setenv(jars, packages)
    again = [word if word != "bank" else "bank2" for word in FLAGS]
    assert not any("export" in line for line in cdc(*again, "-o", "json").data[init.NEXT])


def test_the_options_of_init_stand_under_the_part_that_they_describe(capsys: pytest.CaptureFixture[str]) -> None:
    from airflow.cli import cli_parser

    with pytest.raises(SystemExit):
        cli_parser.get_parser().parse_args(["cdc", "init", "--help"])
    text = capsys.readouterr().out
    places = [text.lower().index(f"{heading}:".lower()) for heading in definition.HEADINGS]
    assert places == sorted(places)
    of_canal = text[places[definition.HEADINGS.index("connector: canal")] :]
    assert of_canal.index("--canal-conf") < of_canal.lower().index("connector: flink")


def test_the_first_pipeline_begins_the_registry(cdc: Callable[..., Answer], registry: Path) -> None:
    registry.unlink()
    assert cdc(*FLAGS).status == 0
    assert registry.read_text().startswith("# Every pipeline of this installation.")
    assert list(load_registry(registry)) == ["bank"]


def test_a_connection_that_exists_is_left_as_it_is(cdc: Callable[..., Answer], registry: Path) -> None:
    flags = [word if word != "lake2" else "lake" for word in FLAGS]
    answer = cdc(*flags, "-o", "json")
    assert answer.data["connection lake"] == "exists, left as it is"
    assert "lake" not in stored()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("bank", "shop"), "pipeline 'shop' already exists"),
        (("db2:3307", "db2:x"), "'db2:x' is not host:port"),
        (("bank.accounts, bank.moves", "accounts"), "Write each table as schema.table"),
        (("--connector", "--note"), ""),
    ],
)
def test_what_is_wrong_changes_nothing(
    change: tuple[str, str],
    said: str,
    cdc: Callable[..., Answer],
    registry: Path,
) -> None:
    before = registry.read_text()
    answer = cdc(*(change[1] if word == change[0] else word for word in FLAGS))
    assert answer.status == 2
    assert said in answer.err
    assert (registry.read_text(), stored()) == (before, {})


def test_without_a_terminal_the_missing_flags_are_named(cdc: Callable[..., Answer], registry: Path) -> None:
    answer = cdc("init", "--pipeline", "bank")
    assert answer.status == 2
    assert answer.err == "error: the options do not fully describe pipeline bank. Add --mysql, --tables, --connector.\n"


def test_at_a_terminal_it_asks_and_enter_takes_the_default(
    cdc: Callable[..., Answer],
    registry: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: Any = iter(["", "", "", "db:1", "", "bank.moves", "", "bank", "", "", "", ""])
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)

    def answer(text: str) -> str:
        asked.append(text)
        return str(next(said))

    monkeypatch.setattr("builtins.input", answer)
    assert cdc("init", "--pipeline", "bank").status == 0
    assert asked[:3] == [
        "What the source is: mysql or mariadb or postgres [mysql]: ",
        "What the connector is: debezium or debezium_engine or canal or flink [debezium]: ",
        "What the sink is: iceberg or opensearch or hudi or jdbc or iceberg_changelog or topics or none [iceberg]: ",
    ]
    made = load_registry(registry)["bank"]
    assert (made.sink.where, made.source.tables) == ("lake.bank", ("bank.moves",))
    assert stored()["bank_mysql"].login == "cdc"


def test_a_page_shows_every_question_as_it_is_asked(
    cdc: Callable[..., Answer], registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader compares line by line; tests/e2e walks the page on an Airflow of its own, which takes many minutes."""
    (dialogue,) = (one for one in blocks(ROOT / "docs" / "how-to" / "own-pipeline.md") if one.title == "dialogue")
    command, *lines = dialogue.text.strip().splitlines()
    left = iter(lines)

    def answer(asked: str) -> str:
        line = next(left)
        assert line.startswith(asked.rstrip())
        return line[len(asked.rstrip()) :].strip()

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", answer)
    *words, stub = command.removeprefix("$ airflow cdc ").split()
    assert stub == "--stub"
    (tmp_path / "dags").mkdir()
    assert cdc(*words, stub, str(tmp_path / "dags")).status == 0
    assert list(left) == []
    assert load_registry(registry)["crm"].source.tables == ("crm.people", "crm.notes")


OTHERS = [
    (
        ("--postgres", "pg:5433", "--database", "crm", "--slot", "crm_slot"),
        "cdc_postgres",
        PostgresSettings("postgres", "crm_postgres", ("crm.people",), "crm_slot", "dbz_publication"),
    ),
    (("--mariadb", "maria"), "cdc_mysql", MariaDbSettings("mariadb", "crm_mariadb", ("crm.people",))),
]


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: other[2].kind)
@pytest.mark.parametrize("sink", [(), ("--sink-kind", "none", "--control-file", "/var/cdc.db")])
def test_other_kinds_ask_their_own_questions(
    other: tuple[tuple[str, ...], str, SourceSpec],
    sink: tuple[str, ...],
    cdc: Callable[..., Answer],
    registry: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags, conn_type, source = other
    monkeypatch.setenv(f"CDC_{source.kind.upper()}_PASSWORD", "s3cret-other")
    words = ("init", "--pipeline", "crm", *flags, "--tables", "crm.people", "--connector", "crm-c", *sink)
    answer = cdc(*words, "-o", "json")
    assert answer.status == 0, answer.err
    made = load_registry(registry)["crm"]
    assert made.source == source
    assert (made.has_sink, made.control is None) == (not sink, not sink)
    connections = stored()
    own = connections[source.conn_id]
    assert (own.conn_type, own.login, own.password) == (conn_type, "cdc", "s3cret-other")
    assert (own.host, own.port, own.schema) in {("pg", 5433, "crm"), ("maria", 3306, None)}
    assert ("cdc_control" in connections, "lake" in connections or "lake" in answer.out) == (bool(sink), not sink)
    assert "replicas" not in registry.read_text().partition("  crm:")[2]


def test_a_connector_of_another_kind_asks_its_own_questions(
    cdc: Callable[..., Answer], registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_MYSQL_PASSWORD", "s3cret-other")
    sink = ("--sink-kind", "none", "--control-file", "/var/cdc.db")
    canal = ("--canal-zookeeper", "zk1:2181,zk2:2181", "--canal-destination", "d1", "--canal-status", "sh -c 'exit 3'")
    answer = cdc("init", "--pipeline", "crm", "--mysql", "db", "--tables", "crm.people", *canal, *sink, "-o", "json")
    assert answer.status == 0, answer.err
    assert load_registry(registry)["crm"].connector == CanalSettings(
        "canal", "crm_canal", "d1", "/opt/canal/conf", "systemctl start canal", "systemctl stop canal", "sh -c 'exit 3'",
        "zookeeper",
    )  # fmt: skip
    connection = stored()["crm_canal"]
    assert (connection.conn_type, connection.host) == ("canal", "zk1:2181,zk2:2181")


@pytest.mark.parametrize(
    "sink",
    [
        ("iceberg", "--catalog", "lake"),
        ("hudi", "--hudi-path", "/lake/hudi", "--control-file", "/var/cdc.db"),
    ],
    ids=lambda sink: sink[0],
)
def test_a_connector_that_nothing_lies_behind_writes_the_tables_itself(
    sink: tuple[str, ...], cdc: Callable[..., Answer], registry: Path
) -> None:
    flink = ("--connector-kind", "flink", "--flink-jobmanager", "jm:8081", "--sink-kind", *sink)
    answer = cdc("init", "--pipeline", "crm", "--mysql", "db", "--tables", "crm.people", *flink, "-o", "json")
    assert answer.status == 0, answer.err
    made = load_registry(registry)["crm"]
    assert (made.sink.kind, made.corrected, made.transport.kind) == (sink[0], Corrected.BEFORE_START, "direct")


@pytest.mark.parametrize(
    "sink",
    [
        ("topics",),
        ("jdbc", "--jdbc-conn-id", "copies", "--jdbc-connector", "crm-sink"),
        ("iceberg_changelog", "--changelog-connector", "crm-log"),
        ("none",),
    ],
    ids=lambda sink: sink[0],
)
def test_whatever_is_compared_gets_its_spark(
    sink: tuple[str, ...], cdc: Callable[..., Answer], registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_MYSQL_PASSWORD", "s3cret-other")
    parts = ("--mysql", "db", "--tables", "crm.people", "--connector", "c", "--control-file", "/var/cdc.db")
    answer = cdc("init", "--pipeline", "crm", *parts, "--sink-kind", *sink, "-o", "json")
    assert answer.status == 0, answer.err
    assert load_registry(registry)["crm"].sink.kind == sink[0]
    assert ("spark_default" in stored()) is (sink != ("none",))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ("--source-kind", "oracle"),
            "'oracle' is not a kind of source that `init` knows (--source-kind). Write one of mysql,",
        ),
        (
            ("--source-kind", "mariadb", "--mariadb", "m", "--database", "x"),
            "--database: no part of this pipeline has",
        ),
        (("--postgres", "p", "--mysql", "m"), "no part of this pipeline has"),
        (("--sink-kind", "none", "--catalog", "lake"), "--catalog: no part"),
    ],
)
def test_flags_that_do_not_fit_together_are_refused(
    flags: tuple[str, ...], said: str, cdc: Callable[..., Answer], registry: Path
) -> None:
    before = registry.read_text()
    answer = cdc("init", "--pipeline", "crm", *flags)
    assert (answer.status, registry.read_text(), stored()) == (2, before, {})
    assert said in answer.err


@pytest.mark.parametrize("value", ["plain_1", "123", "yes", "a: b", "#x", 'say "hi"', "2026-01-01", "null", "~", "ü.x"])
def test_a_value_stands_in_the_registry_as_the_text_that_was_given(value: str) -> None:
    assert yaml.safe_load(f"key: {added.scalar(value)}") == {"key": value}


def test_flags_and_questions_are_the_same() -> None:
    flags = [arg.flags[0].removeprefix("--").replace("-", "_") for arg in definition.ARG_ANSWERS]
    assert flags == list(added.keys())


def actions(group: Any) -> Iterator[Any]:
    for one in group.subcommands:
        yield from actions(one) if hasattr(one, "subcommands") else (one,)


@pytest.mark.parametrize("action", list(actions(definition.get_cdc_cli_commands()[0])), ids=lambda one: one.name)
def test_every_command_has_help_with_examples_that_parse(action: Any, capsys: pytest.CaptureFixture[str]) -> None:
    import shlex

    from airflow.cli import cli_parser

    parser = cli_parser.get_parser()
    lines = [line.strip() for line in action.epilog.splitlines() if line.strip().startswith("airflow cdc ")]
    assert lines
    for line in lines:
        words = shlex.split(re.split(r" [|<]", line)[0])[1:]
        assert parser.parse_args(words).func is not None
    with pytest.raises(SystemExit) as ended:
        parser.parse_args([*words[:2], *([words[2]] if words[1] in ("offset", "dead-letters") else []), "--help"])
    assert ended.value.code == 0
    assert lines[0] in capsys.readouterr().out
