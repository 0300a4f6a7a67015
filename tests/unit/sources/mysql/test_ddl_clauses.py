"""What a statement does to rows, clause by clause: understood to the last word, or not at all."""

from __future__ import annotations

import pytest

from airflow_cdc.sources.mysql.ddl_clauses import Clause, Kind, read_statement


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t TRUNCATE PARTITION p0",
        "ALTER TABLE `shop`.`t` DROP PARTITION p1",
        "alter table t exchange partition p0 with table other",
        "ALTER TABLE t REPAIR PARTITION p0",
        "ALTER TABLE t RENAME TO t9",
        "ALTER TABLE t RENAME COLUMN a TO b",
        "ALTER TABLE t CHANGE a b INT",
        "ALTER TABLE t CHANGE a A INT",
        "ALTER TABLE t CHANGE nick nick_old VARCHAR(9), ADD nick VARCHAR(9)",
        "RENAME TABLE _t_gho TO t",
        "TRUNCATE TABLE t",
        "DROP TABLE `shop`.`t`",
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b)",
        "ALTER TABLE t ADD a INT PRIMARY KEY",
        "ALTER TABLE t ADD a INT AUTO_INCREMENT UNIQUE",
        "ALTER TABLE t ADD a SERIAL",
        "ALTER TABLE t MODIFY id BIGINT AUTO_INCREMENT",
        "ALTER TABLE t DISCARD TABLESPACE",
        "ALTER TABLE t COMMENT='x' ENGINE=BLACKHOLE",
        "ALTER TABLE t ENGINE=BLACKHOLE COMMENT='x'",
        "ALTER TABLE t ENGINE=MyISAM",
        "ALTER TABLE t COMMENT 'x', SECONDARY_LOAD",
        "ALTER TABLE t ADD a INT DEFAULT (uuid_short())",
        "ALTER TABLE t ADD a DATETIME DEFAULT CURRENT_TIMESTAMP",
        "ALTER TABLE t ADD a DATETIME DEFAULT NOW(3) NOT NULL",
        "ALTER TABLE t ADD a BIT(3) DEFAULT b'101'",
        "ALTER TABLE t ADD a INT AS (id + 1)",
        "ALTER TABLE t ADD a INT GENERATED ALWAYS AS (id + 1) STORED",
        "ALTER TABLE t MODIFY a INT AS (id + 2) STORED",
        "ALTER IGNORE TABLE t ADD UNIQUE (a)",
        "ALTER TABLE t ADD UNIQUE (a) /*! ENGINE=BLACKHOLE */",
        "ALTER TABLE t ADD UNIQUE (a) /*M! ENGINE=BLACKHOLE */",
        'ALTER TABLE t COMMENT "x"',
        "REPAIR TABLE t",
        "ALTER TABLE t ADD (a INT",
        "something nobody knows",
        "",
    ],
)
def test_inv_30_what_is_not_understood_whole_may_have_changed_rows(statement: str) -> None:
    assert Kind.UNKNOWN in {clause.kind for clause in read_statement(statement).clauses}


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD INDEX ib (a, b), ALGORITHM=INPLACE, LOCK=NONE",
        "ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (1000))",
        "ALTER TABLE t COMMENT 'DROP COLUMN a, really'",
        "ALTER TABLE t COMMENT='x' ENGINE=InnoDB ROW_FORMAT=DYNAMIC",
        "ALTER TABLE t ADD CONSTRAINT fk FOREIGN KEY (a) REFERENCES u (id), AUTO_INCREMENT = 7",
        "ALTER TABLE `t` ADD CONSTRAINT `c` FOREIGN KEY (`a`) REFERENCES `s`(`id`) ON DELETE SET NULL ON UPDATE CASCADE",
        "ALTER TABLE t ADD CONSTRAINT `p` CHECK (`a` >= 0)",
        "ALTER TABLE t DROP FOREIGN KEY fk, DROP INDEX `ia`, RENAME INDEX a TO b, ALTER INDEX b INVISIBLE",
        "ALTER TABLE t ALTER COLUMN a SET DEFAULT 5",
        "ALTER TABLE t ALTER a SET DEFAULT 'x', ALTER b DROP DEFAULT",
        "CREATE UNIQUE INDEX ib ON t (b) ALGORITHM=INPLACE",
        "DROP INDEX `ib` ON `shop`.`t`",
        "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY) ENGINE=InnoDB",
        "/* online */ ALTER TABLE t DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin -- end",
        "ALTER TABLE t",
    ],
)
def test_statements_that_change_no_row(statement: str) -> None:
    assert {clause.kind for clause in read_statement(statement).clauses} == {Kind.NOTHING}


@pytest.mark.parametrize(
    ("clause", "meaning"),
    [
        ("ADD a INT", Clause(Kind.ADD, "a")),
        ("ADD COLUMN `a b` VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_bin COMMENT 'NOT NULL' FIRST", Clause(Kind.ADD, "a b")),
        ("ADD a VARCHAR(9) DEFAULT NULL AFTER `x`", Clause(Kind.ADD, "a")),
        ("ADD a VARCHAR(9) DEFAULT 'NULL'", Clause(Kind.ADD, "a", default="NULL")),
        ("ADD a VARCHAR(9) DEFAULT 'it''s' NOT NULL", Clause(Kind.ADD, "a", nullable=False, default="it's")),
        ("ADD a VARCHAR(9) NOT NULL DEFAULT ''", Clause(Kind.ADD, "a", nullable=False, default="")),
        ("ADD a DECIMAL(6,2) NOT NULL DEFAULT -1.50", Clause(Kind.ADD, "a", nullable=False, default="-1.50")),
        ("ADD a BOOL DEFAULT true NOT NULL", Clause(Kind.ADD, "a", nullable=False, default="TRUE")),
        ("ADD a INT UNSIGNED NOT NULL", Clause(Kind.ADD, "a", nullable=False)),
        ("ADD a DOUBLE PRECISION", Clause(Kind.ADD, "a")),
        ("ADD a DOUBLE DEFAULT 1.5e0", Clause(Kind.ADD, "a", default="1.5e0")),
        ("DROP a", Clause(Kind.DROP, "a")),
        ("DROP COLUMN `index`", Clause(Kind.DROP, "index")),
        ("MODIFY COLUMN a BIGINT(20) UNSIGNED NULL DEFAULT 7 AFTER b", Clause(Kind.MODIFY, "a")),
        ("MODIFY a TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", Clause(Kind.MODIFY, "a")),
        ("CHANGE `a` `a` VARCHAR(20)", Clause(Kind.MODIFY, "a")),
        ("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", Clause(Kind.CONVERT)),
    ],
)  # fmt: skip
def test_what_a_clause_says_of_a_column(clause: str, meaning: Clause) -> None:
    assert read_statement(f"ALTER TABLE `shop`.t {clause};").clauses == (meaning,)


def test_several_columns_in_parentheses_are_clauses_each() -> None:
    clauses = read_statement(
        "ALTER TABLE t ADD (a INT, b VARCHAR(3) NOT NULL DEFAULT ',' , KEY (a)), DROP `b,c`"
    ).clauses
    assert [(clause.kind, clause.column) for clause in clauses] == [
        (Kind.ADD, "a"),
        (Kind.ADD, "b"),
        (Kind.NOTHING, ""),
        (Kind.DROP, "b,c"),
    ]


@pytest.mark.parametrize(
    ("statement", "tables"),
    [
        ("ALTER TABLE `a`.`b` DROP c", (("a", "b"),)),
        ("ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE x.t_in WITHOUT VALIDATION", (("", "t"), ("x", "t_in"))),
        ("ALTER TABLE t RENAME AS t9", (("", "t"), ("", "t9"))),
        ("RENAME TABLE a TO b, `x`.c TO d", (("", "a"), ("", "b"), ("x", "c"), ("", "d"))),
        ("CREATE INDEX i ON t (a)", (("", "t"),)),
        ("DROP TABLE t", ()),
    ],
)
def test_the_tables_that_a_statement_changes(statement: str, tables: tuple[tuple[str, str], ...]) -> None:
    assert read_statement(statement).tables == tables
