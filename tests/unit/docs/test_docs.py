"""The documentation says what is so: its snippets are files that work, its runbook has every problem, its commands exist."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator

from airflow_cdc.config.registry import load_registry
from airflow_cdc.connectors.canal.cursor import CursorCodec
from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.flattening import FLATTENS, Deletes
from airflow_cdc.connectors.flink.offset import FlinkCodec
from airflow_cdc.core.secrets import SPARK_REDACTION
from airflow_cdc.dags._recovery import recovery_dag
from airflow_cdc.hooks.iceberg import IcebergCatalogHook
from airflow_cdc.hooks.kafka import CdcKafkaHook
from airflow_cdc.hooks.kafka_connect import KafkaConnectHook
from airflow_cdc.hooks.mysql import CdcMySqlHook
from airflow_cdc.hooks.opensearch import CdcOpenSearchHook
from airflow_cdc.hooks.rabbitmq import CdcRabbitMqHook
from airflow_cdc.hooks.sql_control import SqlControlHook
from airflow_cdc.notifications.webhook import address
from airflow_cdc.provider_info import get_provider_info
from airflow_cdc.sinks.opensearch.indexes import CONTROL, LETTERS, PREFIX, RECORDS
from airflow_cdc.sources.mysql.grants import MARIADB_NEEDS, MYSQL_NEEDS, Need
from stack import pages, recording, versions
from tests.paths import ROOT
from tests.pictures import made_of
from tests.unit.builders import ALL_CODES
from tests.unit.conftest import REGISTRY

PAGES = sorted((ROOT / "docs").rglob("*.md"))
README = ROOT / "README.md"


def included() -> set[Path]:
    names = {name for page in PAGES for name in pages.parts(page.read_text())} - set(pages.TABLES)
    return {ROOT / name.partition(":")[0] for name in names}


@pytest.mark.parametrize("page", list(pages.pages()), ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_is_made_from_is_what_it_shows(page: Path) -> None:
    text = page.read_text()
    assert text == pages.filled(text), "run: make pages"
    # an include would be seen only on the site, and README leads to the pages as they are
    assert '--8<-- "' not in text


def test_every_example_is_shown_somewhere_and_every_snippet_is_a_file() -> None:
    assert all(path.is_file() for path in included())
    assert {path for path in (ROOT / "examples").iterdir() if path.is_file()} <= included()


@pytest.mark.parametrize("path", sorted(path for path in included() if path.suffix == ".yaml"), ids=lambda p: p.name)
def test_a_registry_in_the_docs_is_valid(path: Path) -> None:
    assert load_registry(path)


def test_the_connections_in_the_docs_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "examples" / "connections.env").read_text()
    for name, value in re.findall(r"^(AIRFLOW_CONN_\w+)='(.*?)'$", text, re.MULTILINE | re.DOTALL):
        monkeypatch.setenv(name, value)
    mysql = CdcMySqlHook("shop_mysql").endpoint()
    assert (mysql.host, mysql.connect_timeout) == ("mysql.example", 10)
    assert mysql.ssl == {"ca": "/etc/ssl/mysql-ca.pem", "mode": "verify_identity"}
    connect = KafkaConnectHook("shop_connect").endpoint()
    assert (connect.url, connect.verify) == ("https://connect.example:8083", "/etc/ssl/own-ca.pem")
    kafka = CdcKafkaHook("shop_kafka").endpoint()
    assert kafka.bootstrap == "kafka-1.example:9093,kafka-2.example:9093"
    assert {"sasl.mechanism", "sasl.username", "security.protocol", "ssl.cafile"} <= kafka.security.keys()
    lake, local = (IcebergCatalogHook(name).endpoint() for name in ("lake", "local_lake"))
    assert (lake.properties["type"], local.properties["type"]) == ("rest", "sql")
    assert lake.properties["credential"].startswith("cdc:")
    rabbit = CdcRabbitMqHook("shop_rabbitmq").endpoint()
    assert (rabbit.api, rabbit.vhost, rabbit.ca_file) == ("https://rabbit.example:15671", "/", "/etc/ssl/rabbit-ca.pem")
    search = CdcOpenSearchHook("shop_search").endpoint()
    assert (search.url, search.ca_file) == ("https://search.example:9200", "/etc/ssl/search-ca.pem")
    control = SqlControlHook("cdc_control").endpoint()
    assert (control.driver, control.options["sslmode"]) == ("postgresql+psycopg", "verify-full")
    assert BaseHook.get_connection("spark_default").host == "spark://spark.example"
    assert address(BaseHook.get_connection("ops")) == "https://chat.example/hooks/cdc"


def test_the_registry_of_the_readme_is_valid(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(pipelines:.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "pipelines.yaml").write_text(block)
    assert list(load_registry(tmp_path / "pipelines.yaml")) == ["shop"]


def test_the_dags_in_the_docs_load(airflow_db: Path, registry: Path) -> None:
    bag = DagBag(dag_folder=ROOT / "examples")
    assert bag.import_errors == {}
    assert {name: set(dag.task_ids) for name, dag in bag.dags.items()} == {
        "wait_for_position": {"wait"},
        "morning_diagnosis": {"diagnose_shop", "report_shop"},
        "recover_shop": OWN_RECOVERY,
        "check_shop_on_sundays": {"compare", "approve", "repair", "verdict", "announce"},
        "watch_shop": {"watch"},
        "ticket_for_shop": {"ticket"},
        "hourly_sales": {"apply", "count_sales"},
        "marts": {"build"},
    }


# all of cdc_recovery but what leads to a replica, and a check of its own
OWN_RECOVERY = {task.task_id for task in recovery_dag().tasks} - {
    "detour_connector",
    "return_connector",
    "compare",
    "verdict",
} | {"enough_orders"}


def test_a_recovery_of_one_s_own_has_the_order_of_ours(airflow_db: Path, registry: Path) -> None:
    own, ours = DagBag(dag_folder=ROOT / "examples").dags["recover_shop"], recovery_dag()
    for task in ours.tasks:
        if task.task_id in OWN_RECOVERY and task.task_id != "verify":
            kept = set(task.downstream_task_ids) & OWN_RECOVERY
            assert kept <= set(own.get_task(task.task_id).downstream_task_ids), task.task_id
            assert own.get_task(task.task_id).trigger_rule == task.trigger_rule
            assert own.get_task(task.task_id).is_teardown == task.is_teardown
    assert own.get_task("verify").downstream_task_ids == {"enough_orders"}
    assert own.get_task("enough_orders").downstream_task_ids == {"publish"}


def test_every_operator_and_sensor_has_a_how_to() -> None:
    text = (ROOT / "docs" / "how-to" / "operators.md").read_text()
    modules = [
        name
        for group in ("operators", "sensors")
        for one in get_provider_info()[group]
        for name in one["python-modules"]
    ]
    bases = {"CdcOperator", "PlannedOperator", "PolicyApprovalOperator", "AvailabilitySensor"}
    offered = {
        name
        for module in map(import_module, modules)
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, BaseOperator | BaseSensorOperator)
        and value.__module__ == module.__name__
    }
    assert offered - bases
    assert {name for name in offered - bases if f"`{name}" not in text} == set()


OF_TABLES = {"SELECT", "LOCK TABLES"}


@pytest.mark.parametrize(
    ("file", "needs", "tables"),
    [("grants.sql", MYSQL_NEEDS, OF_TABLES), ("grants_mariadb.sql", MARIADB_NEEDS, {"SELECT"})],
)
def test_the_grants_in_the_docs_are_all_that_is_needed(file: str, needs: tuple[Need, ...], tables: set[str]) -> None:
    text = (ROOT / "examples" / file).read_text()
    granted = {name.strip() for names in re.findall(r"^GRANT (.+) ON", text, re.MULTILINE) for name in names.split(",")}
    assert granted == {*tables, *(need.privilege for need in needs)}


def test_every_page_grants_the_provider_the_same_rights_on_mysql() -> None:
    """One list, in one file; what is shown elsewhere says the same of another database."""
    wanted = granted_to_cdc((ROOT / "examples" / "grants.sql").read_text())
    own = ROOT / "examples" / "own-pipeline.sql"
    assert granted_to_cdc(own.read_text()) == wanted
    shown = {
        page: granted_to_cdc(page.read_text()) for page in PAGES if "XA_RECOVER_ADMIN, BACKUP_ADMIN" in page.read_text()
    }
    # on Canal's page every table has a key, so nothing is locked
    lists = {page.name: rights | {"LOCK TABLES"} if page == CANAL else rights for page, rights in shown.items()}
    assert len(lists) >= 4
    assert {name for name, rights in lists.items() if rights != wanted} == set()


def granted_to_cdc(text: str) -> set[str]:
    """What MySQL's provider user is granted: MariaDB's and PostgreSQL's statements name other rights."""
    lines = re.findall(r"^GRANT (.+) ON \S+ TO 'cdc'@'%'", text, re.MULTILINE)
    return {name.strip() for names in lines if "BINLOG MONITOR" not in names for name in names.split(",")}


def test_every_problem_has_a_runbook_entry() -> None:
    headings = set(re.findall(r"^## (\w+)$", (ROOT / "docs" / "problems.md").read_text(), re.MULTILINE))
    assert headings >= ALL_CODES


def test_every_command_in_the_docs_exists() -> None:
    from airflow.cli import cli_parser

    text = (ROOT / "docs" / "how-to" / "commands.md").read_text()
    listed = re.findall(r"^\| `airflow (cdc [^`]+)`", text, re.MULTILINE)
    assert len(listed) >= 9
    assert all(cli_parser.get_parser().parse_args(line.split()).func for line in listed)


# ---- what stands in the pages themselves, in the place of a file -------------------------------------


def typed(block: str) -> Iterator[list[str]]:
    """The commands of a console block, as words; comments, here-documents' files and `export` are left out."""
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line.split("<")[0], comments=True)
        if words and words[0] != "export":
            yield words


def understood(words: list[str]) -> bool:
    """Whether a command is one that there is: of `airflow` with its options, a target of make, or pip's own."""
    from airflow.cli import cli_parser

    if words[0] == "airflow":
        return bool(cli_parser.get_parser().parse_args(words[1:]).func)
    if words[0] == "make":
        return re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE) is not None
    return words[:2] in (["pip", "install"], ["pip", "wheel"], ["mkdir", "-p"])


def console(block: str) -> bool:
    return all(map(understood, typed(block)))


def registry_part(block: str) -> bool:
    """A part of pipelines.yaml: a whole one, a pipeline's `source`, or some ways to write `backfill`, each alone."""
    if "cluster_permissions:" in block:
        return covers_our_indexes(yaml.safe_load(block))
    lines = [line for line in block.splitlines() if line.strip()]
    parts = lines if all(line.strip().startswith("backfill:") for line in lines) else [block]
    return all(loads(yaml.safe_load(part)) for part in parts)


def covers_our_indexes(roles: dict[str, Any]) -> bool:
    """A role of OpenSearch's; tests/integration/opensearch/test_search_logins.py works with it."""
    rights = [right for role in roles.values() for right in role["index_permissions"]]
    writable = {
        pattern for right in rights if "crud" in right["allowed_actions"] for pattern in right["index_patterns"]
    }
    return writable == {f"{PREFIX}*", RECORDS, CONTROL, LETTERS}


def loads(part: dict[str, Any]) -> bool:
    whole = part if "pipelines" in part else yaml.safe_load(REGISTRY)
    if whole is not part:
        whole["pipelines"]["shop"] |= part
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pipelines.yaml"
        path.write_text(yaml.safe_dump(whole))
        return bool(load_registry(path))


def statements(block: str) -> bool:
    """Queries and calls have tests of their own, that run them; rights are those of the files."""
    if "LEFT JOIN source" in block:
        return finds_ghosts(block)
    for file in ("grants_postgres.sql", "grants_mariadb.sql"):
        rights = (ROOT / "examples" / file).read_text().replace("SCHEMA shop", "SCHEMA crm").replace("shop.*", "crm.*")
        if rights.splitlines()[0] in block and "XA_RECOVER_ADMIN" not in block:
            return all(line in block for line in rights.splitlines())
    if "VERSION AS OF" in block or block.startswith(("WITH commits", "CALL lake.system.remove_orphan_files(")):
        return True
    needed = {*(need.privilege for need in MYSQL_NEEDS), *OF_TABLES}
    granted = {
        name.strip() for names in re.findall(r"^GRANT (.+) ON", block, re.MULTILINE) for name in names.split(",")
    }
    return bool(granted) and granted <= needed


def finds_ghosts(query: str) -> bool:
    """The rows that only the sink has."""
    with closing(sqlite3.connect(":memory:")) as database:
        for table, keys in {"source": (1, 3), "sink": (1, 2, 3)}.items():
            database.execute(f"CREATE TABLE {table} (id INTEGER)")
            database.executemany(f"INSERT INTO {table} VALUES (?)", [(key,) for key in keys])
        return database.execute(query).fetchall() == [(2,)]


def of_a_connector(block: str) -> bool:
    """Settings of a connector: NULL arrives as NULL, or flattened changes keep their places in the log."""
    lines = dict(line.split("=", 1) for line in block.strip().splitlines() if not line.startswith("#"))
    kind = "postgresql.PostgresConnector" if "PostgreSQL" in block else "mysql.MySqlConnector"
    own = {"connector.class": f"io.debezium.connector.{kind}", "topic.prefix": "shop"}
    flattens = {"transforms": "unwrap", "transforms.unwrap.type": FLATTENS} if "unwrap" in block else {}
    settings = ConnectorSettings.from_config({**own, **flattens, **lines})
    if not flattens:
        return not settings.null_becomes_default
    (form,) = settings.flattened
    return form.lacks(settings.source) == () and form.deletes == {Deletes.ROW}


def an_offset(block: str) -> bool:
    """A cursor of Canal, or an offset of Flink CDC, that `airflow cdc offset set` would take."""
    codecs = (CursorCodec(), FlinkCodec())
    return any(codec.faults(json.loads(block)) == () for codec in codecs)


def spark_settings(block: str) -> bool:
    """Settings of Spark, as `[cdc] spark_conf` takes them: text, and nothing that is refused or secret."""
    read: dict[str, Any] = json.loads(block)
    named = all(name.startswith("spark.") and isinstance(value, str) for name, value in read.items())
    return (
        named and not any(re.search(SPARK_REDACTION, name) for name in read) and "spark.submit.deployMode" not in read
    )


def own_text(page: Path) -> str:
    """A page without the parts that are files, which have tests of their own, and without what is walked."""
    text = re.sub(r"<!-- part: .*?<!-- end -->", "", page.read_text(), flags=re.DOTALL)
    return re.sub(r"^## Set up .*?(?=^## )", "", text, flags=re.DOTALL | re.MULTILINE) if page in WALKED else text


def shell(block: str) -> bool:
    """What a shell can read, with the settings of a connector that can be followed."""
    read = subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True, check=False).returncode == 0
    documents = re.findall(r"<<JSON\n(.*?)^JSON$", block, re.DOTALL | re.MULTILINE)
    return read and all(not ConnectorSettings.from_config(json.loads(one)).null_becomes_default for one in documents)


CHECKS: dict[str, Callable[[str], bool]] = {
    "console": console,
    "sh": shell,
    "yaml": registry_part,
    "sql": statements,
    "text": lambda block: bool(block.strip()),
    "properties": of_a_connector,
    "json": lambda block: an_offset(block) or spark_settings(block),
}
# done block by block on real servers by tests/e2e/test_canal_page.py
CANAL = ROOT / "docs" / "systems" / "canal.md"
JDBC = ROOT / "docs" / "systems" / "jdbc.md"
# these, too: tests/e2e/test_jdbc_page.py, test_flink_page.py, test_hudi_page.py
WALKED = (CANAL, JDBC, *(ROOT / "docs" / "systems" / f"{name}.md" for name in ("flink", "hudi")))
# its script is run by tests/e2e/test_own_pipeline.py
DONE_WHOLE = ROOT / "docs" / "how-to" / "own-pipeline.md"
BLOCKS = [
    (page.name, language, block)
    for page in (*PAGES, ROOT / "README.md")
    if "evidence" not in page.parts and page != DONE_WHOLE
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", own_text(page), re.MULTILINE | re.DOTALL)
]


@pytest.mark.parametrize(("language", "block"), [one[1:] for one in BLOCKS], ids=[one[0] for one in BLOCKS])
def test_what_is_written_in_a_page_works(language: str, block: str) -> None:
    assert CHECKS[language](block)


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/.-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert {str(page.relative_to(ROOT / "docs")) for page in PAGES} == listed
    assert yaml.safe_load((ROOT / "mkdocs.yml").read_text())["strict"] is True


def test_decisions_are_numbered_without_a_hole_and_all_listed() -> None:
    files = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    index = (ROOT / "docs" / "adr" / "index.md").read_text()
    assert [file.name[:4] for file in files] == [f"{n:04}" for n in range(1, len(files) + 1)]
    for file in files:
        title = file.read_text().splitlines()[0].removeprefix("# ")
        assert title.startswith(file.name[:4]), file
        assert f"| [{title[:4]}]({file.name}) | {title[5:]} |" in index, file
        assert f"adr/{file.name}" in (ROOT / "mkdocs.yml").read_text(), file


def test_what_was_tested_is_what_the_stack_runs() -> None:
    """The table of versions names those that the tests start, and no other."""
    text = (ROOT / "docs" / "how-to" / "platforms.md").read_text()
    tested = (versions.MYSQL_TESTED["8.0"], versions.MYSQL_TESTED["9.7"], versions.MYSQL_TESTED["mariadb"])
    for version in (*tested, *versions.POSTGRES_TESTED, versions.DEBEZIUM, versions.KAFKA, versions.AIRFLOW):
        assert version in text, version


def test_the_readmes_table_is_that_of_one_run() -> None:
    bench = (ROOT / "docs" / "evidence" / "bench.md").read_text()
    demo = (ROOT / "docs" / "evidence" / "demo-200k.md").read_text()
    runs = re.findall(
        r"a recovery of ([\d,]+) rows through the DAG, writer active, against when_needed \| ([\d.]+) \| ([\d.]+)",
        bench,
    )
    assert len(runs) == 3
    rows = re.findall(
        r"^\| [\d,]+(?: million)? \| ([\d.]+) s \| ([\d.]+) s \| (.+) \|$", README.read_text(), re.MULTILINE
    )
    assert [row[:2] for row in rows] == [run[1:] for run in runs]
    *_, peer = re.finditer(r"snapshot.mode=when_needed +│ +([\d.]+) │ +(\d+)", demo)
    assert rows[0][2] == f"[{int(peer[2]):,}](docs/evidence/demo-200k.md)"
    assert all(row[2] in bench for row in rows[1:])


def test_the_readme_is_short_and_says_the_error_first_and_who_writes_the_sink() -> None:
    text = README.read_text()
    assert len(text.split()) <= 650
    lines = text.splitlines()
    assert lines.index("```console") < 25
    assert (
        text.index("no longer available on the server")
        < text.index("**Don't do what it says yet.**")
        < text.index("## ")
    )
    assert "**Who writes your sink tables?**" in text
    assert "unreleased" in text
    assert {"make demo", "make test"} <= set(re.findall(r"^make \w+", text, re.MULTILINE))


def test_no_picture_of_the_page_is_older_than_its_template() -> None:
    kept = json.loads((ROOT / "docs" / "images" / "made-of.json").read_text())
    assert kept == made_of(), "the page looks different now: run `make pictures`, and look at them"


def test_the_recording_is_that_of_the_run_in_the_evidence() -> None:
    lines = recording.shown()
    assert "MATCH" in "\n".join(lines)
    assert any("no longer available" in line or "The connector is trying to read" in line for line in lines)
    assert recording.PICTURE.read_text() == recording.picture(), "run: make pages"
    assert "docs/images/demo.svg" in README.read_text()


def test_every_picture_is_shown_and_every_shown_one_exists() -> None:
    shown = {
        name
        for page in (*PAGES, README)
        for name in re.findall(r"!\[[^\]]*\]\([^)]*?([\w-]+\.png)\)", page.read_text())
    }
    assert shown == {path.name for path in (ROOT / "docs" / "images").glob("*.png")}


_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as a site and a repository's viewer make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_every_link_of_a_page_at_the_top_leads_somewhere(page: Path) -> None:
    """Mkdocs checks those below docs/."""
    broken = []
    for file, anchor in _LINK.findall(page.read_text()):
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f"{file}#{anchor}")
    assert broken == []
