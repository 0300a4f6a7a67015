"""Both ways of holding a stage, and which one is taken, on an embedded catalog that is made to refuse."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from pyiceberg.exceptions import BadRequestError, ForbiddenError, RESTError, ServerError, UnauthorizedError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import update_table_metadata
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType

from airflow_cdc.alerting.circuit import Circuits, guard
from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import ConfigError, SinkError, UnknownStateError
from airflow_cdc.core.pipeline import NO_SINK
from airflow_cdc.flows.stages import check_stages, require_stages
from airflow_cdc.sinks.iceberg import beside, client
from airflow_cdc.sinks.iceberg.beside import creation, faults
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint, IcebergSettings
from airflow_cdc.sinks.iceberg.stage import SEQUENCE_RESERVE, new_stage
from airflow_cdc.sinks.iceberg.staging import Staging, noted_way
from airflow_cdc.sinks.none import NoEndpoint, NoSinkClient
from tests.contract.lakes import COLUMNS, append, append_staged, compact, ids, lake_in, run_on


def refuse(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, error: BaseException, call: str = "register_table"
) -> list[int]:
    """Let the catalog answer with `error`; returns a list that grows with each call."""
    calls: list[int] = []

    def answer(*_: Any, **__: Any) -> None:
        calls.append(1)
        raise error

    monkeypatch.setattr(lake.catalog, call, answer)
    return calls


def location(lake: Lake, *table: str) -> str:
    return lake.table(*table).metadata.location


def metadata_files(lake: Lake) -> set[str]:
    folder = Path(urlparse(location(lake, "shop", "orders")).path) / "metadata"
    return {file.name for file in folder.iterdir()}


# which way


def test_a_catalog_that_registers_gets_stages_on_the_tables_own_files(shop: Lake) -> None:
    stage = shop.stage("shop", "orders", "x")
    assert location(shop, *stage.identifier) == location(shop, "shop", "orders")
    assert noted_way(shop.catalog, Staging.AUTO).way is Staging.REGISTERED  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "refusal",
    [ForbiddenError("location taken"), BadRequestError("no"), NotImplementedError("no"), RESTError("405")],
    ids=lambda error: type(error).__name__,
)
def test_a_catalog_that_refuses_gets_tables_beside_and_is_not_asked_again(
    shop: Lake, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    calls, before = refuse(shop, monkeypatch, refusal), metadata_files(shop)
    stage = shop.stage("shop", "orders", "x")
    assert location(shop, *stage.identifier) != location(shop, "shop", "orders")
    noted = noted_way(shop.catalog, Staging.AUTO)
    assert noted is not None
    assert noted.way is Staging.BESIDE
    assert type(refusal).__name__ in noted.reason
    shop.stage("shop", "orders", "y")
    assert len(calls) == 1
    pins = 2  # each writes one metadata file of the target; what was written for the registration is deleted again
    assert len(metadata_files(shop) - before) == pins


def test_the_note_is_read_once_and_corrected(shop: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of stages ask the catalog nothing more; one that registers no longer is noted as such."""
    shop.stage("shop", "orders", "x")
    with monkeypatch.context() as silent:
        silent.setattr(shop.catalog, "load_namespace_properties", lambda *_: pytest.fail("asked again"))
        shop.stage("shop", "orders", "y")
    refuse(shop, monkeypatch, ForbiddenError("no longer"))
    shop.stage("shop", "orders", "z")
    assert "no longer" in str(noted_way(lake_in(tmp_path).catalog, Staging.AUTO))


@pytest.mark.parametrize("error", [ServerError("500"), UnauthorizedError("401"), ConnectionError()])
def test_no_answer_is_no_refusal(shop: Lake, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    refuse(shop, monkeypatch, error)
    with pytest.raises(UnknownStateError, match="cannot be registered"):
        shop.stage("shop", "orders", "x")
    assert noted_way(shop.catalog, Staging.AUTO) is None
    monkeypatch.undo()
    shop.stage("shop", "orders", "x")
    assert noted_way(shop.catalog, Staging.AUTO).way is Staging.REGISTERED  # type: ignore[union-attr]


def test_one_error_names_both_refusals(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(shop, monkeypatch, ForbiddenError("location taken"))
    refuse(shop, monkeypatch, ForbiddenError("creates nothing"), "create_table_transaction")
    with pytest.raises(SinkError, match=r"location taken.*creates nothing") as caught:
        shop.stage("shop", "orders", "x")
    assert "shop__orders__x" in caught.value.where
    assert "register tables, or to create them" in caught.value.todo


@pytest.mark.parametrize(("asked", "call"), [("registered", "register_table"), ("beside", "create_table_transaction")])
def test_a_way_that_was_asked_for_is_the_only_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, call: str
) -> None:
    lake = lake_in(tmp_path, staging=asked)
    lake.ensure_table("shop", "orders", COLUMNS)
    refuse(lake, monkeypatch, ForbiddenError("not here"), call)
    with pytest.raises(SinkError, match="not here"):
        lake.stage("shop", "orders", "x")
    assert lake.stages() == ()
    monkeypatch.undo()
    stage = lake.stage("shop", "orders", "x")
    apart = location(lake, *stage.identifier) != location(lake, "shop", "orders")
    assert apart is (asked == "beside")


def test_a_note_of_another_question_does_not_answer(shop: Lake, tmp_path: Path) -> None:
    asked = lake_in(tmp_path, staging="beside")
    asked.stage("shop", "orders", "x")
    stage = shop.stage("shop", "orders", "y")
    assert location(shop, *stage.identifier) == location(shop, "shop", "orders")


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(ConfigError, match="auto, registered, beside"):
        Lake("lake", {"type": "sql", "staging": "elsewhere"})


def test_pipelines_yaml_overrides_the_catalog() -> None:
    endpoint = IcebergEndpoint("lake", {"type": "rest"})
    assert IcebergSettings("iceberg", "shop", "lake").at(endpoint) == endpoint
    asked = IcebergSettings("iceberg", "shop", "lake", staging="beside").at(endpoint)
    assert Lake("lake", asked.properties).asked_way is Staging.BESIDE


# what a table beside begins with


def test_a_table_beside_starts_with_everything_and_copies_nothing(shop: Lake) -> None:
    for number in range(3):
        append(shop, "shop", "orders", number)
    with shop.table("shop", "orders").update_schema() as change:
        change.delete_column("b")
    with shop.table("shop", "orders").update_schema() as change:
        change.add_column("c", LongType())
    source = shop.table("shop", "orders").metadata
    staged = created(source, shop)
    assert faults(staged, source) == ()
    assert [s.manifest_list for s in staged.snapshots][: len(source.snapshots)] == [
        s.manifest_list for s in source.snapshots
    ]
    assert staged.schema().column_names == ["id", "a", "c"]
    # each snapshot with its own columns: the last one was made before the change
    by_id = {schema.schema_id: schema.column_names for schema in staged.schemas}
    assert by_id[staged.snapshots[2].schema_id or 0] == ["id", "a", "b"]
    assert list(staged.refs) == ["main"]
    assert staged.last_updated_ms >= source.last_updated_ms


def created(source: TableMetadata, lake: Lake) -> TableMetadata:
    """The stage's metadata by the commit that creates it."""
    stage = new_stage(lake.table("shop", "orders"), "shop", "orders", "x")
    catalog: Any = lake.catalog
    empty = catalog._empty_table_metadata()
    return update_table_metadata(empty, creation(source, stage, "file:///x").updates, enforce_validation=True)


def test_a_column_id_that_only_a_forgotten_schema_had_is_not_given_again(shop: Lake) -> None:
    source = shop.table("shop", "orders").metadata
    forgotten = source.model_copy(update={"last_column_id": 17})
    staged = created(forgotten, shop)
    assert staged.last_column_id == 17
    assert staged.schema().column_names == ["id", "a", "b"]
    assert faults(staged, forgotten) == ()


def test_schemas_are_numbered_anew_and_snapshots_follow(shop: Lake) -> None:
    """Catalogs number a new table's schemas from 0, whatever the target's are called."""
    append(shop, "shop", "orders", 1)
    source = shop.table("shop", "orders").metadata
    schema = source.schemas[0].model_copy(update={"schema_id": 7})
    snapshots = [one.model_copy(update={"schema_id": 7}) for one in source.snapshots]
    later = {"schemas": [schema], "current_schema_id": 7, "snapshots": snapshots}
    staged = created(source.model_copy(update=later), shop)
    assert {one.schema_id for one in staged.snapshots} == {one.schema_id for one in staged.schemas} == {0}


def test_the_targets_own_places_for_files_are_not_the_stages(shop: Lake) -> None:
    with shop.table("shop", "orders").transaction() as change:
        change.set_properties({"write.data.path": "file:///elsewhere", "write.metadata.path": "file:///more"})
    staged = created(shop.table("shop", "orders").metadata, shop)
    assert not {key for key in staged.properties if key.endswith(".path")}
    assert staged.properties["cdc.stage.table"] == "orders"


def test_what_a_catalog_made_otherwise_is_named_and_dropped(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    source = shop.table("shop", "orders").metadata
    staged = created(source, shop)
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket"), spec_id=0)
    others: dict[str, dict[str, Any]] = {
        "columns": {"last_column_id": 2},
        "partitions": {"partition_specs": [spec]},
        "snapshots": {"refs": {}},
        "sequence numbers": {"last_sequence_number": 1 + SEQUENCE_RESERVE - 1},
    }
    for name, change in others.items():
        assert faults(staged.model_copy(update=change), source) == (name,)
    refuse(shop, monkeypatch, ForbiddenError("location taken"))
    monkeypatch.setattr(beside, "faults", lambda *_: ("columns",))
    with pytest.raises(SinkError, match="other columns than asked for"):
        shop.stage("shop", "orders", "x")
    assert shop.stages() == ()


def test_a_partitioned_table_keeps_its_layout(lake: Lake) -> None:
    lake.ensure_table("shop", "orders", COLUMNS)
    with lake.table("shop", "orders").update_spec() as change:
        change.add_field("a", IdentityTransform(), "by_a")
    append(lake, "shop", "orders", 1, 2)
    source = lake.table("shop", "orders").metadata
    staged = created(source, lake)
    assert faults(staged, source) == ()
    assert staged.default_spec_id == source.default_spec_id == 1


# the files of both


def files_of(lake: Lake, *table: str) -> set[str]:
    return {task.file.file_path for task in lake.table(*table).scan().plan_files()}


@pytest.fixture
def apart(tmp_path: Path) -> Lake:
    lake = lake_in(tmp_path, staging="beside")
    lake.ensure_table("shop", "orders", COLUMNS)
    append(lake, "shop", "orders", 1, 2)
    return lake


def test_a_stage_beside_cannot_harm_the_target(apart: Lake) -> None:
    stage = apart.stage("shop", "orders", "x")
    staged = apart.table(*stage.identifier)
    assert staged.properties["gc.enabled"] == "false"
    append_staged(apart, stage, 3)
    own, target = location(apart, *stage.identifier), location(apart, "shop", "orders")
    assert not own.startswith(target)
    assert not target.startswith(own)
    assert {path.startswith(own) for path in files_of(apart, *stage.identifier)} == {True, False}


def test_published_files_outlive_the_stage(apart: Lake) -> None:
    stage = apart.stage("shop", "orders", "x")
    apart.publish(stage, append_staged(apart, stage, 3), stage.base_head)
    apart.drop_stage(stage)
    assert ids(apart.read_arrow("shop", "orders")) == [1, 2, 3]
    # the next stage of this name is at the same location, and its drop deletes nothing either
    again = apart.stage("shop", "orders", "x")
    append_staged(apart, again, 666)
    apart.drop_stage(again)
    assert ids(apart.read_arrow("shop", "orders")) == [1, 2, 3]


def test_a_stage_takes_over_another_try_of_either_way(shop: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    append(shop, "shop", "orders", 1)
    first = shop.stage("shop", "orders", "recov_1_1")
    append_staged(shop, first, 2)
    shop.asked_way, shop._way = Staging.BESIDE, None
    second = shop.stage("shop", "orders", "recov_1_2", first)
    append_staged(shop, first, 666)  # an orphan
    head = append_staged(shop, second, 3)
    compact(shop, "shop", "orders")
    shop.publish(second, head, second.base_head, over_compaction=True)
    for stage in (first, second):
        shop.drop_stage(stage)
    assert ids(shop.read_arrow("shop", "orders")) == [1, 2, 3]


def test_a_try_killed_before_the_catalog_had_the_stage_is_made_again(
    apart: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(apart.catalog, "commit_table", die)
    with pytest.raises(KeyboardInterrupt):
        beside.create_beside(apart.catalog, apart.table("shop", "orders"), new_stage(*staged_of(apart)))
    monkeypatch.undo()
    assert apart.stages() == ()
    stage = apart.stage("shop", "orders", "x")
    beside.create_beside(apart.catalog, apart.table("shop", "orders"), stage)  # a second try of the step: already there
    assert apart.stages() == (stage,)


def staged_of(lake: Lake) -> tuple[Any, str, str, str]:
    lake.ensure_namespace("cdc_stage")
    return lake.table("shop", "orders"), "shop", "orders", "x"


# before a recovery, and doctor


def checks_of(lake: Lake, folder: Path) -> list[Check]:
    return list(check_stages(run_on(lake, folder)))


def test_the_trial_says_how_and_leaves_nothing(shop: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_on(shop, tmp_path)
    assert "the first recovery finds out" in checks_of(shop, tmp_path)[0].found
    refuse(shop, monkeypatch, ForbiddenError("location taken"))
    require_stages(run)
    (check,) = checks_of(shop, tmp_path)
    assert (check.state, "beside" in check.found, "location taken" in check.found) == ("ok", True, True)
    assert shop.stages() == ()
    assert shop.catalog.list_tables(("cdc_control",)) == []
    monkeypatch.setattr(shop.catalog, "create_table", lambda *_: pytest.fail("tried again"))
    require_stages(run)


def test_a_trial_that_was_killed_is_made_again(shop: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way is noted by the stage, and the trial only when it came to its end."""
    refuse(shop, monkeypatch, KeyboardInterrupt(), "drop_table")
    with pytest.raises(KeyboardInterrupt):
        require_stages(run_on(shop, tmp_path))
    assert "registered" in checks_of(shop, tmp_path)[0].found
    assert ".tried" not in str(shop.catalog.load_namespace_properties(("cdc_stage",)))
    monkeypatch.undo()
    require_stages(run_on(shop, tmp_path))
    assert ".tried" in str(shop.catalog.load_namespace_properties(("cdc_stage",)))
    monkeypatch.setattr(shop.catalog, "register_table", lambda *_: pytest.fail("tried a third time"))
    require_stages(run_on(shop, tmp_path))


def test_a_trial_without_an_answer_blames_no_catalog(
    shop: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(shop, monkeypatch, ConnectionError(), "drop_table")
    with pytest.raises(UnknownStateError, match="could not be tried"):
        require_stages(run_on(shop, tmp_path))


def test_a_sink_behind_a_circuit_is_tried_too(shop: Lake, tmp_path: Path) -> None:
    run = run_on(shop, tmp_path)
    behind = replace(run, clients=replace(run.clients, sink=guard(shop, "lake", Circuits())))
    require_stages(behind)
    (check,) = check_stages(behind)
    assert "registered" in check.found


def test_a_pipeline_without_a_sink_has_no_stages_to_check(shop: Lake, tmp_path: Path) -> None:
    run = run_on(shop, tmp_path)
    clients: Any = replace(run.clients, sink=NoSinkClient(NoEndpoint()))
    none = replace(run, pipeline=replace(run.pipeline, sink=NO_SINK), clients=clients)
    assert list(check_stages(none)) == []
    require_stages(none)


def test_neither_way_is_one_error_before_anything_is_changed(
    shop: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(shop, monkeypatch, ForbiddenError("location taken"))
    refuse(shop, monkeypatch, ForbiddenError("creates nothing"), "create_table_transaction")
    with pytest.raises(SinkError, match="allows no stage"):
        require_stages(run_on(shop, tmp_path))
    assert shop.stages() == ()
    assert shop.catalog.list_tables(("cdc_control",)) == []


def test_a_catalog_that_drops_tags_holds_no_stage(shop: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shop.catalog.commit_table

    def forgetful(*args: Any) -> Any:
        response = real(*args)
        refs = {name: ref for name, ref in response.metadata.refs.items() if name == "main"}
        return response.model_copy(update={"metadata": response.metadata.model_copy(update={"refs": refs})})

    monkeypatch.setattr(shop.catalog, "commit_table", forgetful)
    with pytest.raises(SinkError, match="it keeps no tags"):
        require_stages(run_on(shop, tmp_path))


def test_dynamodb_is_refused_by_name() -> None:
    lake = Lake("lake", {"type": "dynamodb", "dynamodb.region": "eu-central-1"})
    with pytest.raises(ConfigError, match="commits to no table") as caught:
        lake.reach()
    assert "Use another catalog" in caught.value.todo


def test_a_signing_catalog_is_a_doubt(tmp_path: Path) -> None:
    lake = lake_in(tmp_path, staging="beside", **{"s3.remote-signing-enabled": "true"})
    (check,) = checks_of(lake, tmp_path)
    assert check.state == "warn"
    assert "files of two locations" in check.found


def test_vended_credentials_and_encryption_are_doubts(
    shop: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shop.catalog.load_table

    def vending(identifier: Any) -> Any:
        table = real(identifier)
        table.config = {"s3.session-token": "s3cret"}
        return table

    monkeypatch.setattr(shop.catalog, "load_table", vending)
    (check,) = checks_of(shop, tmp_path)
    assert (check.state, "table by table (s3.session-token)" in check.found) == ("warn", True)
    assert "s3cret" not in check.found
    monkeypatch.undo()
    with shop.table("shop", "orders").transaction() as change:
        change.set_properties({"encryption.key-id": "k1"})
    (check,) = checks_of(shop, tmp_path)
    assert (check.state, "shop.orders is encrypted" in check.found) == ("warn", True)


def test_a_hive_client_is_not_shared_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has one connection, which two calls at once tear from each other."""
    monkeypatch.setattr(client, "open_catalog", lambda *_: object())
    for kind, shared in (("hive", False), ("rest", True)):
        lake = Lake("lake", {"type": kind, "uri": "thrift://127.0.0.1:1"})
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(getattr, lake, "catalog").result()
        assert (other is lake.catalog) is shared
        assert lake.catalog is lake.catalog
