"""Every kind of clause that MySQL's manual has for ALTER TABLE and that leaves rows as they are (INV 30).

Without its line in the table a statement of that kind would stop the table, and each online schema change cost a copy.
"""

from __future__ import annotations

import pytest

from airflow_cdc.sources.mysql.ddl_clauses import Clause, Kind, read_statement

# what a person writes → clauses of that kind, each alone
KINDS: dict[str, tuple[str, ...]] = {
    "an index is added": (
        "ADD INDEX i (a)",
        "ADD KEY (a, b DESC)",
        "ADD INDEX i USING BTREE (a) COMMENT 'x' INVISIBLE",
    ),
    "a unique key is added": (
        "ADD UNIQUE (a)",
        "ADD CONSTRAINT u UNIQUE KEY i (a)",
        "ADD UNIQUE INDEX i USING HASH (a)",
    ),
    "a full-text or spatial index is added": (
        "ADD FULLTEXT INDEX ft (a)",
        "ADD FULLTEXT (a) WITH PARSER ngram",
        "ADD SPATIAL KEY sp (g)",
    ),
    "a foreign key is added": (
        "ADD FOREIGN KEY (a) REFERENCES u (id)",
        "ADD CONSTRAINT fk FOREIGN KEY f (a) REFERENCES d.u (id) MATCH FULL ON DELETE SET NULL ON UPDATE NO ACTION",
    ),
    "a check is added": ("ADD CHECK (a > 0)", "ADD CONSTRAINT c CHECK (a > 0) NOT ENFORCED"),
    "an index or constraint is dropped": (
        "DROP INDEX i",
        "DROP KEY i",
        "DROP FOREIGN KEY fk",
        "DROP CHECK c",
        "DROP CONSTRAINT c",
    ),
    "an index is renamed": ("RENAME INDEX i TO j", "RENAME KEY i TO j"),
    "an index is shown or hidden": ("ALTER INDEX i VISIBLE", "ALTER INDEX i INVISIBLE"),
    "a check is enforced or not": (
        "ALTER CHECK c NOT ENFORCED",
        "ALTER CHECK c ENFORCED",
        "ALTER CONSTRAINT c ENFORCED",
        "ALTER CONSTRAINT c NOT ENFORCED",
    ),
    "a column's default or visibility changes": (
        "ALTER COLUMN a DROP DEFAULT",
        "ALTER a SET DEFAULT 5",
        "ALTER a SET DEFAULT NULL",
        "ALTER a SET DEFAULT (uuid())",
        "ALTER COLUMN a SET INVISIBLE",
        "ALTER COLUMN a SET VISIBLE",
    ),
    "partitions are added": ("ADD PARTITION PARTITIONS 4", "ADD PARTITION (PARTITION p VALUES LESS THAN (9))"),
    "partitions are cut anew or looked after": (
        "REORGANIZE PARTITION p0 INTO (PARTITION a VALUES LESS THAN (5), PARTITION b VALUES LESS THAN (9))",
        "REORGANIZE PARTITION",
        "REBUILD PARTITION p0",
        "OPTIMIZE PARTITION ALL",
        "ANALYZE PARTITION p0",
        "CHECK PARTITION p0",
    ),
    "partitions are joined": ("COALESCE PARTITION 2",),
    "partitions are given up": ("REMOVE PARTITIONING",),
    "a table is partitioned": (
        "PARTITION BY HASH (id)",
        "PARTITION BY LINEAR KEY (id) PARTITIONS 4",
        "PARTITION BY RANGE COLUMNS (a) (PARTITION p VALUES LESS THAN (9))",
        "PARTITION BY LIST (a) (PARTITION p VALUES IN (1, 2))",
    ),
    "rows are stored in another order": ("ORDER BY a", "ORDER BY a DESC"),
    "a comment": ("COMMENT 'DROP COLUMN a'", "COMMENT = 'x'"),
    "the next number": ("AUTO_INCREMENT = 7", "AUTO_INCREMENT 7"),
    "the engine stays InnoDB": ("ENGINE=InnoDB", "ENGINE = innodb"),
    "the character set of later columns": (
        "DEFAULT CHARACTER SET utf8mb4",
        "CHARSET=latin1",
        "COLLATE utf8mb4_bin",
        "DEFAULT COLLATE = utf8mb4_bin",
    ),
    "how rows are stored": (
        "ROW_FORMAT=DYNAMIC",
        "STATS_PERSISTENT=1",
        "KEY_BLOCK_SIZE=8",
        "AVG_ROW_LENGTH=100",
        "MAX_ROWS=9",
        "MIN_ROWS=1",
        "PACK_KEYS=1",
        "CHECKSUM=1",
        "DELAY_KEY_WRITE=1",
    ),
    "compressed, encrypted, or an engine's own": ("COMPRESSION='zlib'", "ENCRYPTION='Y'", "ENGINE_ATTRIBUTE='{}'"),
    "how the server does it": ("ALGORITHM=INPLACE", "LOCK=NONE", "ALGORITHM = COPY"),
    "rebuilt, keys off and on, not validated": (
        "FORCE",
        "ENABLE KEYS",
        "DISABLE KEYS",
        "WITH VALIDATION",
        "WITHOUT VALIDATION",
    ),
}
EACH = [(kind, clause) for kind, clauses in KINDS.items() for clause in clauses]


@pytest.mark.parametrize(("kind", "clause"), EACH, ids=[f"{kind}: {clause[:40]}" for kind, clause in EACH])
def test_inv_30_rows_stay_as_they_are_when(kind: str, clause: str) -> None:
    assert read_statement(f"ALTER TABLE t {clause}").clauses == (Clause(Kind.NOTHING),)


@pytest.mark.parametrize(("kind", "clause"), EACH, ids=[f"{kind}: {clause[:40]}" for kind, clause in EACH])
def test_inv_30_a_clause_is_understood_to_its_last_word(kind: str, clause: str) -> None:
    assert read_statement(f"ALTER TABLE t {clause} AND BLACKHOLE").clauses == (Clause(Kind.UNKNOWN),)


@pytest.mark.parametrize(
    "clause",
    [
        "DROP PARTITION p0",
        "TRUNCATE PARTITION p0",
        "EXCHANGE PARTITION p0 WITH TABLE x",
        "DISCARD TABLESPACE",
        "IMPORT TABLESPACE",
        "DISCARD PARTITION p0 TABLESPACE",
        "ENGINE=MyISAM",
        "ENGINE=BLACKHOLE",
        "DROP PRIMARY KEY",
        "ADD PRIMARY KEY (a)",
        "RENAME COLUMN a TO b",
        "CHANGE a b INT",
        "ALTER COLUMN a SET DEFAULT x",
        "UNION=(a, b)",
        "CONVERT TO CHARACTER SET latin1 ENGINE=InnoDB",
    ],
)
def test_inv_30_a_clause_that_takes_rows_away_or_moves_them_is_never_harmless(clause: str) -> None:
    assert Kind.UNKNOWN in {one.kind for one in read_statement(f"ALTER TABLE t {clause}").clauses}
