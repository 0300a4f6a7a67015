"""The adversary's dice, schema and oracle: reproducible, and able to see a difference."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from io import StringIO
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_cdc.core.errors import CdcError, ConnectorError, RereadNeededError
from airflow_cdc.spark_apps import apply_changes
from airflow_cdc.spark_apps.stages import waiting
from airflow_cdc.spark_apps.stages.reread import Reread
from stack.registry import Registry
from tests.adversary import world
from tests.adversary.crowd import Crowd
from tests.adversary.form import FLATTENED, FORMATS, Form, form_of
from tests.adversary.generator import Generator, Op, Step
from tests.adversary.known import KNOWN
from tests.adversary.oracle import Comparison, SourceColumn, _differences, _moment, json_value, sink_name
from tests.adversary.refusals import Refusals
from tests.adversary.result import Result
from tests.adversary.schema import NASTY_NAMES, ONE_BYTE, SWITCHES, UNUSUAL_NAMES, WIDE, Column, Table, pool_of, schema
from tests.adversary.story import MATCH, Story
from tests.adversary.words import fault_of, kind_of, mentions
from tests.adversary.world import BEHIND


def drawn(seed: int, *without: str) -> list[Op]:
    """Every statement list of a seed, as if the server took all of them."""
    generator = Generator(seed, frozenset(without))
    operations = list(generator.fill())
    for one in generator.rounds(6):
        for op in (*one.before, *one.beside):
            generator.settle(op)
            operations.append(op)
    return operations


def test_a_seed_gives_the_same_statements_again_and_another_seed_others() -> None:
    assert drawn(5) == drawn(5)
    assert drawn(5) != drawn(6)


def test_seeds_together_use_every_column_key_step_and_kind_of_statement() -> None:
    generators = [Generator(seed) for seed in range(300)]
    columns = {column.ddl for g in generators for table in g.tables.values() for column in table.columns}
    assert {column.ddl for column in pool_of()} <= columns
    kinds = {op.kind for seed in range(60) for op in drawn(seed)}
    assert {"insert", "move_key", "xa", "truncate", "swap_names", "shrink_and_grow", "drop_and_add"} <= kinds
    truncates = [op for seed in range(60) for op in drawn(seed) if op.kind == "truncate"]
    begins = {op.statements[0].partition(" ")[0] for op in truncates}
    assert {"TRUNCATE", "CREATE"} <= begins  # before another statement about the table, and after one
    assert any(len(op.statements) > 2 for op in truncates)
    steps = {one.step for seed in range(20) for one in Generator(seed).rounds(6)}
    assert steps == set(Step)


@pytest.mark.parametrize("switch", ["charsets", "json", "days", "years", "defaults"])
def test_a_switch_leaves_its_columns_out_and_no_others(switch: str) -> None:
    troubles = {column.ddl: column.trouble for column in pool_of() if column.trouble == switch}
    assert troubles
    for seed in range(30):
        for table in schema(random.Random(seed), frozenset({switch})):
            assert not [c for c in table.columns if c.ddl in troubles and c.values == ()]
    kinds = {column.trouble for column in pool_of()} - {"", switch}
    assert kinds


def test_every_switch_that_a_column_or_a_known_fault_names_exists() -> None:
    assert {column.trouble for column in pool_of()} - {""} <= SWITCHES.keys()
    assert KNOWN.keys() <= SWITCHES.keys()
    assert all(KNOWN.values())


def test_a_definition_change_counts_only_when_the_server_took_it() -> None:
    generator = Generator(3)
    table = next(iter(generator.tables.values()))
    op = generator._drop(table)
    assert op.after is not None
    before = generator.tables[table.name]
    assert generator.tables[table.name] is before
    generator.settle(op)
    assert len(generator.tables[table.name].columns) == len(before.columns) - 1


def test_names_are_different_to_a_server_that_ignores_case() -> None:
    names = [name.lower() for name in (*NASTY_NAMES, *UNUSUAL_NAMES, "n", "ticks")]
    assert len(names) == len(set(names))


def test_every_character_set_has_its_column() -> None:
    assert len({*ONE_BYTE, *WIDE}) == 40  # all of MySQL 8.0 but binary


# --- the oracle ------------------------------------------------------------------------------------------------------


def test_json_numbers_are_compared_by_value_to_the_last_digit() -> None:
    assert json_value("1e20") == json_value("100000000000000000000")
    assert json_value("4.9E-324") == json_value("5e-324")
    assert json_value("1.0") == json_value("1")
    assert json_value("0.12345678901234567890123") != json_value("0.12345678901234568")
    assert json_value("12345678901234567890") != json_value("12345678901234567891")
    assert json_value("[true]") != json_value("[1]")
    assert json_value('{"a": 1, "b": 2}') == json_value('{"b": 2, "a": 1}')
    assert json_value("{") != json_value("{}")


def test_a_day_that_is_none_is_null_or_the_epoch() -> None:
    column = SourceColumn("d", "date", "date", nullable=True, generated=False)
    assert _moment("2020-02-31", column) is None
    assert _moment("0024-05-06", column) == "0024-05-06"
    never_null = SourceColumn("d", "datetime", "datetime", nullable=False, generated=False)
    assert _moment("0000-00-00 00:00:00", never_null) == "1970-01-01 00:00:00.000000"


def test_a_difference_names_the_column_and_counts_rows_twice_where_they_are() -> None:
    columns = [SourceColumn(name, "int", "int", nullable=True, generated=False) for name in ("id", "v")]
    unequal = _differences(Comparison("t"), columns, ["id"], [(1, 5), (2, 6)], [(1, 5), (2, 7)])
    assert not unequal.equal
    assert (unequal.missing, unequal.ghosts) == (1, 1)
    assert unequal.columns == {"v int": "source 6, sink 7"}
    twice = _differences(Comparison("t"), columns, [], [(1, 5), (1, 5)], [(1, 5)])
    assert (twice.missing, twice.ghosts) == (1, 0)
    assert _differences(Comparison("t"), columns, [], [(1, Decimal("1.50"))], [(1, Decimal("1.5"))]).equal


def test_a_sink_name_is_plain_and_two_tables_never_share_one() -> None:
    assert sink_name("größe") == "größe"
    assert sink_name("a b") != sink_name("a.b")


def test_refusals_of_one_kind_count_together() -> None:
    one = kind_of("column size was dropped or renamed (table db_1.t1). Recover the table.", ["db_1", "t1"])
    two = kind_of("column weight was dropped or renamed (table db_1.other). Recover the table.", ["db_1", "other"])
    assert one == two


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("the source's definition changed: column c was dropped or renamed (table a.b). Recover the table.", ""),
        ("Set value.converter.replace.null.with.default=false on the connector.", ""),
        ("rows may have changed without events by ALTER TABLE t DROP c", ""),
        ("a.b is MISMATCH (0 missing, 0 ghosts, 0 different); first: column list", "vague"),
        ("something went wrong. Try again.", "vague"),
        ("could not read the tables: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column cannot be resolved", "crash"),
        ("could not apply the changes: java.lang.NullPointerException", "crash"),
    ],
)
def test_a_refusal_must_name_something_and_hide_no_exception(text: str, fault: str) -> None:
    assert fault_of(text) == fault


def test_a_crowd_keeps_every_seeds_tables_and_statements_apart() -> None:
    """Names are told apart, a definition change reaches its own seed, and what concerns the connector is one."""
    crowd = Crowd((201, 202, 203))
    assert len(crowd.tables) == sum(len(member.tables) for member in crowd.members)
    assert {crowd.seed_of(table) for table in crowd.tables} == {201, 202, 203}
    assert {"days"} <= crowd.without
    creates = [op.table for op in crowd.fill() if op.kind == "create"]
    assert sorted(creates) == sorted(crowd.tables)
    for one in crowd.rounds(3):
        for op in (*one.before, *one.beside):
            crowd.settle(op)
            if op.after is not None:
                assert crowd.tables[op.table] is op.after
                assert crowd.members[crowd.owners[op.table]].tables[op.table] is op.after


def test_a_crowd_gives_the_same_statements_again() -> None:
    def statements() -> list[str]:
        crowd = Crowd((7, 8))
        rounds = [*crowd.rounds(2)]
        return [s for one in rounds for op in (*one.before, *one.beside) for s in op.statements]

    assert statements() == statements()


def test_a_name_is_not_the_beginning_of_a_longer_one() -> None:
    assert mentions("column c1 of adv.order: …", "adv.order")
    assert not mentions("column c1 of adv.order_203: …", "adv.order")


def test_a_table_that_apply_reads_again_counts_as_refused_only_if_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that counts as refused is not compared: the suite would be blind in all that apply puts right by itself."""
    run: Any = None
    why, failure = RereadNeededError("its rows changed without events"), CdcError("the stage is gone")
    monkeypatch.setattr(apply_changes, "failed_tries", lambda *_: 0)
    monkeypatch.setattr(apply_changes, "note_refused", lambda *_, **__: None)

    def stopped(outcome: Reread | CdcError) -> dict[str, CdcError]:
        def reread(*_: object) -> Reread:
            if isinstance(outcome, CdcError):
                raise outcome
            return outcome

        monkeypatch.setattr(apply_changes, "reread", reread)
        refused = Refusals()
        with refused.listening():
            apply_changes.log.warning("%s stopped: %s", "shop.orders", why)
            apply_changes._read_again(run, run, "shop.orders", why)
        return refused.by_table

    assert stopped(Reread(3, 1)) == {}
    assert stopped(failure) == {"shop.orders": failure}


def test_letters_of_a_table_count_although_another_table_ends_the_apply_with_its_error() -> None:
    refused = Refusals()
    with refused.listening():
        apply_changes.log.warning(waiting.UNRESOLVED, "shop.notes", 2)
        apply_changes.log.warning("%s stopped: %s", "shop.orders", CdcError("its definition changed"))
    assert (refused.letters, [*refused.by_table]) == ({"shop.notes": 2}, ["shop.orders"])


class Said:
    """A pipeline of three tables whose applies say one thing after the other."""

    database, tables = "adv", ("a", "b", "c")

    def __init__(self, *answers: dict[str, str]) -> None:
        self.answers = list(answers)

    def apply(self) -> dict[str, str]:
        return self.answers.pop(0)

    def drain(self) -> str:
        return ""


def compared_after(monkeypatch: pytest.MonkeyPatch, *answers: dict[str, str]) -> set[str]:
    """The tables that a check compares whose applies say this."""
    compared: set[str] = set()
    monkeypatch.setattr(Story, "compare", lambda _story, _step, table: compared.add(table))
    pipe: Any = Said(*answers)
    story = Story(Generator(1), pipe, StringIO(), Result(1))
    story.applied("apply")
    assert story.check("apply")
    return compared


def test_what_an_apply_said_counts_although_a_later_one_has_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    letters, behind = {"a": "1 dead letters are unresolved", "b": ""}, {"b": BEHIND}
    assert compared_after(monkeypatch, letters, {}) == {"b", "c"}
    assert compared_after(monkeypatch, {}, letters | behind, {"a": "", "b": ""}) == {"b", "c"}
    assert compared_after(monkeypatch, {}, *[behind] * 4) == {"a", "c"}


def test_a_connector_that_stopped_is_read_past_without_the_columns_that_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipe: Any = Said()
    answers, dropped = ["column c5 of adv.a", ""], list[str]()

    def drop_named(_story: Story, error: str) -> bool:
        dropped.append(error)
        return True

    monkeypatch.setattr(Story, "attempt", lambda *_: answers.pop(0) or None)
    monkeypatch.setattr(Story, "drop_named", drop_named)
    story = Story(Generator(1), pipe, StringIO(), Result(1))
    assert story.read_past("apply", "the connector stopped")
    assert (dropped, story.result.findings) == (["column c5 of adv.a"], [])


def test_a_recovery_that_failed_is_the_run_that_goes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, nobody = list[str](), cast("Any", None)

    def decided(run: str, _asked: str | None) -> dict[str, Any]:
        asked.append(run)
        return {"plan": {"refused": asked == ["r1"], "strategy": "full_snapshot", "reason": "a column"}}

    def fails(_run: Any) -> None:
        raise ConnectorError("it stopped")

    monkeypatch.setattr(world.Pipe, "_run", lambda _pipe, run_id, _options: SimpleNamespace(run_id=run_id))
    monkeypatch.setattr("tests.adversary.world.decide.decide", lambda run, asked: decided(run.run_id, asked))
    monkeypatch.setattr(world, "open_recovery", lambda _run, _decision: None)
    monkeypatch.setattr("tests.adversary.world.Decision.from_json", lambda _decision: None)
    monkeypatch.setattr("tests.adversary.world.connector.stop", fails)
    pipe = world.Pipe(nobody, "adv", ["a"], {}, database="adv")
    for _ in range(3):
        with pytest.raises(CdcError):
            pipe.recover()
    with pytest.raises(ConnectorError):
        pipe.renewed(["b"]).recover()
    assert asked == ["r1", "r2", "r2", "r3"], "a refused plan has opened nothing; a new pipeline has a lease of its own"


def test_a_table_that_differed_is_compared_again_once_the_product_has_proven_it() -> None:
    pipe: Any = Said()
    story = Story(Generator(1), pipe, StringIO(), Result(1), failed={"a", "b"})
    story.equal_now("a")
    assert story.out_of_sight == {"b"}


def test_a_damaged_table_that_a_check_calls_match_is_looked_at_and_not_taken_for_a_lie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 568: rows were deleted from the sink, and then apply read the table again because of DDL."""
    compared = list[str]()
    pipe: Any = Said()
    pipe.compare = lambda dry: {"a": (MATCH, ""), "b": (MATCH, ""), "c": ("MISMATCH", "ghosts: 1")}
    monkeypatch.setattr(Story, "compare", lambda _story, _step, table: compared.append(table))
    story = Story(Generator(1), pipe, StringIO(), Result(1), damaged={"a", "c"})
    story.last_word()
    assert (compared, story.result.findings) == (["a"], [])


PLANNED = "the plan is refused: the table has no key, and unwrap flattens its events (table db.b). Give it one. To continue with the others now, run: airflow cdc recover p --table db.a --table db.c"


def told(tables: dict[str, Any]) -> Story:
    """A story of these tables, in the database db, of which nothing was done yet."""
    generator: Any = SimpleNamespace(tables=tables, seed_of=lambda _: 1, modes={})
    pipe: Any = SimpleNamespace(database="db", tables=list(tables))
    return Story(generator, pipe, StringIO(), Result(1))


def test_a_table_that_a_plan_refuses_is_left_out_and_counted_and_the_others_go_on() -> None:
    """The refusal's own advice names the others: taken for refused as well, nothing was left and the seed was stuck."""
    story = told({"a": None, "b": None, "c": None})
    assert story.left_out(PLANNED) == ["b"]
    assert story.pipe.tables == ["a", "c"]
    assert list(story.result.left_out) == ["b"]
    assert fault_of(PLANNED) == ""


def test_where_every_table_is_refused_nobody_goes_on() -> None:
    assert told({"b": None}).left_out(PLANNED) == []


def test_a_recovery_of_a_later_round_goes_on_without_the_table_that_its_plan_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = told({"a": None, "b": None, "c": None})
    monkeypatch.setattr(Story, "dropped", lambda *_: None)
    answers = iter((PLANNED, None))
    monkeypatch.setattr(Story, "attempt", lambda *_: next(answers))
    assert story.gave_columns("gap", None) is None
    assert story.pipe.tables == ["a", "c"]


def test_a_default_that_a_plan_refuses_is_taken_from_its_column() -> None:
    columns = (Column("id", "int NOT NULL", ("1",)), Column("c", "varchar(9) NULL DEFAULT 'x'", ("'x'",)))
    story = told({"a": Table("a", columns, ("id",), 1)})
    op = story.dropped("the plan is refused: NULL in db.a.c arrives as the column's default (table db.a).")
    assert op is not None
    assert op.statements == ("ALTER TABLE `a` ALTER COLUMN `c` DROP DEFAULT",)
    assert op.after is not None
    assert op.after.column("c").ddl == "varchar(9) NULL"


@pytest.mark.parametrize("seed", [3, 13, 23])
def test_a_seeds_statements_are_the_same_in_every_form(seed: int) -> None:
    plain = Generator(seed, frozenset({"formats", "flattened"}))
    assert plain.form == Form()
    fitted = [form_of(seed).fitting(table) for table in plain.tables.values()]
    assert list(Generator(seed).tables.values()) == fitted
    assert form_of(seed) == Generator(seed).form


def test_no_column_gets_the_name_of_another_where_avro_changes_names() -> None:
    """Kafka Connect refuses such a schema ("field name duplication a_b"), and with it stops the connector of all tables."""
    columns = tuple(Column(name, "int", ("1",)) for name in ("a-b", "a b", "1st", "_1st", "n", "a_b"))
    table = Table("t", columns, ("a_b",), 0)
    avro = next(form for form in map(form_of, range(99)) if form.name.startswith("Avro"))
    assert [column.name for column in avro.fitting(table).columns] == ["1st", "n", "a_b"]
    assert Form().fitting(table) == table
    both = avro.fitting(replace(table, key=("a b", "a_b")))
    assert (both.key, [column.name for column in both.columns]) == (("a b",), ["a b", "1st", "n"])


def test_seeds_come_in_every_form_and_name_it_to_the_connector() -> None:
    schemas = Registry("http://r/apis/registry/v2", "", cast("Any", None))
    forms = {form_of(seed) for seed in range(1000)}
    assert forms == {Form(*one, flat) for one in FORMATS.values() for flat in ("", *FLATTENED)}
    for form in forms:
        settings = form.settings({"key.converter.schemas.enable": "true", "decimal.handling.mode": "string"}, schemas)
        assert ("transforms" in settings) == bool(form.flat)
        assert ("transforms.unwrap.add.fields" in settings) == ("add.fields" in FLATTENED.get(form.flat, ""))
        assert (settings.get("value.converter.apicurio.registry.url") == schemas.url) == form.has_registry
        assert settings["decimal.handling.mode"] == "string"
        assert len({form.name for form in forms}) == len(forms)
