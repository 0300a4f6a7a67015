"""The shop database of the demo and of the tests: five tables, filled inside the server.

| table | key | why it is there |
|---|---|---|
| customers | varchar, case-insensitive | collated keys, emoji, padded values |
| orders | bigint | the large plain table |
| order_items | (bigint, smallint) | composite key |
| events | none | a multiset with duplicates |
| all_types | int | every MySQL type at its edges |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pymysql

CATALOG = "lake"  # the SQL catalog keeps the mirror under this name
SCHEMA = "shop"
TABLES = ("customers", "orders", "order_items", "events", "all_types")

# the share of `rows` each filled table gets, in percent
SHARES = {"customers": 10, "orders": 45, "order_items": 40, "events": 5}
ALL_TYPES_ROWS = 300

_DDL = (
    """
    CREATE TABLE customers (
      code VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,
      name VARCHAR(80) NOT NULL,
      email VARCHAR(120),
      tier ENUM('basic','silver','gold') NOT NULL DEFAULT 'basic',
      note_a VARCHAR(64),
      balance DECIMAL(14,2) NOT NULL DEFAULT 0,
      created_at DATETIME(6) NOT NULL,
      updated_at TIMESTAMP(3) NULL,
      PRIMARY KEY (code))
    """,
    """
    CREATE TABLE orders (
      id BIGINT NOT NULL AUTO_INCREMENT,
      customer VARCHAR(40) NOT NULL,
      status ENUM('new','paid','shipped','returned') NOT NULL,
      amount DECIMAL(12,2) NOT NULL,
      flags SET('gift','express','fragile') NOT NULL DEFAULT '',
      weight DOUBLE,
      note VARCHAR(100),
      placed_at DATETIME(3) NOT NULL,
      paid_on DATE,
      PRIMARY KEY (id))
    """,
    """
    CREATE TABLE order_items (
      order_id BIGINT NOT NULL,
      line SMALLINT NOT NULL,
      sku CHAR(12) NOT NULL,
      qty INT UNSIGNED NOT NULL,
      price DECIMAL(10,4) NOT NULL,
      PRIMARY KEY (order_id, line))
    """,
    """
    CREATE TABLE events (
      at TIMESTAMP(3) NOT NULL,
      kind VARCHAR(20) NOT NULL,
      payload VARCHAR(60))
    """,
    """
    CREATE TABLE all_types (
      id INT NOT NULL PRIMARY KEY,
      c_tiny TINYINT, c_utiny TINYINT UNSIGNED, c_bool TINYINT(1), c_small SMALLINT, c_medium MEDIUMINT,
      c_int INT, c_big BIGINT, c_ubig BIGINT UNSIGNED,
      c_dec DECIMAL(10,3), c_dec65 DECIMAL(65,30),
      c_float FLOAT, c_double DOUBLE,
      c_bit1 BIT(1), c_bit12 BIT(12), c_bit64 BIT(64),
      c_char CHAR(10), c_varchar VARCHAR(100), c_latin VARCHAR(30) CHARACTER SET latin1, c_text TEXT,
      c_binary BINARY(8), c_varbinary VARBINARY(40), c_blob BLOB,
      c_date DATE, c_datetime DATETIME, c_datetime6 DATETIME(6), c_ts TIMESTAMP NULL, c_ts6 TIMESTAMP(6) NULL,
      c_time TIME, c_time6 TIME(6), c_year YEAR,
      c_enum ENUM('a','b c','d,e',''), c_set SET('x','y z','w'),
      c_json JSON, c_point POINT, c_geom GEOMETRY,
      c_gen_stored VARCHAR(20) GENERATED ALWAYS AS (CONCAT('s', c_int)) STORED,
      c_gen_virtual VARCHAR(20) GENERATED ALWAYS AS (CONCAT('v', id)) VIRTUAL)
    """,
)

# Each list holds the edges of one column as SQL literals; row n takes value n modulo the list's length.
# The lists have lengths that share few factors, so that edges meet each other in many combinations.
EDGES: dict[str, tuple[str, ...]] = {
    "c_tiny": ("-128", "127", "0", "NULL"),
    "c_utiny": ("0", "255", "NULL"),
    "c_bool": ("0", "1", "NULL"),
    "c_small": ("-32768", "32767", "NULL"),
    "c_medium": ("-8388608", "8388607", "NULL"),
    "c_int": ("-2147483648", "2147483646", "0", "NULL"),
    "c_big": ("-9223372036854775808", "9223372036854775807", "NULL"),
    "c_ubig": ("0", "18446744073709551615", "9223372036854775808", "NULL"),
    "c_dec": ("-9999999.999", "9999999.999", "0.000", "1.100", "NULL"),
    "c_dec65": (
        "99999999999999999999999999999999999.999999999999999999999999999999",
        "-0.000000000000000000000000000001",
        "NULL",
    ),
    "c_float": ("1.1", "-3.402823e38", "1.17549e-38", "0", "16777216", "NULL"),
    "c_double": (
        "1.7976931348623157e308",
        "2.2250738585072014e-308",
        "0.1",
        "-0.0",
        "1e20",
        "1e15",
        "123456.789",
        "NULL",
    ),
    "c_bit1": ("b'0'", "b'1'", "NULL"),
    "c_bit12": ("b'101010101010'", "b'0'", "NULL"),
    "c_bit64": ("0xFFFFFFFFFFFFFFFF", "b'1'", "NULL"),
    "c_char": ("'abc'", "''", "'   pad'", "'ünïcödé'", "NULL"),
    "c_varchar": (
        "'trailing   '",
        "''",
        "'emoji 😀👩‍👩‍👧'",
        "'quote '' back \\\\ slash'",
        "'tab\\tnew\\nline'",
        "'a:1,b|c'",
        "NULL",
    ),
    "c_latin": ("'Zürich'", "'£'", "NULL"),
    "c_text": ("REPEAT('long text 😀 ', 200)", "''", "NULL"),
    "c_binary": ("0x0102030000000000", "0xFFFFFFFFFFFFFFFF", "0x00", "NULL"),
    "c_varbinary": ("0x00", "X''", "0xDEADBEEF00", "NULL"),
    "c_blob": ("0x00FF10", "REPEAT(0xAB, 3000)", "NULL"),
    "c_date": ("'1000-01-01'", "'9999-12-31'", "'1970-01-01'", "'0000-00-00'", "'2024-02-29'", "NULL"),
    "c_datetime": (
        "'1000-01-01 00:00:00'",
        "'9999-12-31 23:59:59'",
        "'0000-00-00 00:00:00'",
        "'2026-03-29 02:30:00'",
        "NULL",
    ),
    "c_datetime6": ("'2026-03-29 02:30:00.000001'", "'1969-12-31 23:59:59.999999'", "'0000-00-00 00:00:00'", "NULL"),
    # the hour that is skipped and the hour that comes twice in central Europe and in New York, as UTC instants
    "c_ts": (
        "'2026-03-29 01:00:00'",
        "'2026-10-25 00:30:00'",
        "'2026-10-25 01:30:00'",
        "'1970-01-01 00:00:01'",
        "'2038-01-19 03:14:07'",
        "'0000-00-00 00:00:00'",
        "NULL",
    ),
    "c_ts6": ("'2026-11-01 05:30:00.123456'", "'2026-11-01 06:30:00.999999'", "NULL"),
    "c_time": ("'838:59:59'", "'-838:59:59'", "'00:00:00'", "'-00:00:01'", "'25:01:01'", "NULL"),
    "c_time6": ("'-00:00:00.000001'", "'100:59:59.999999'", "NULL"),
    "c_year": ("1901", "2155", "0", "NULL"),
    "c_enum": ("'a'", "'b c'", "'d,e'", "''", "NULL"),
    "c_set": ("''", "'x'", "'x,y z,w'", "NULL"),
    "c_json": (
        """'{"b": 1, "a": [1, 2.5, "ü😀", null, true], "long": {"z": {}, "y": []}}'""",
        "'[]'",
        "'\"text\"'",
        "'1.10'",
        "'12345678901234567890'",
        "NULL",
    ),
    "c_point": ("ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(48.1 11.5)', 4326)", "NULL"),
    "c_geom": ("ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')", "ST_GeomFromText('LINESTRING(0 0,1 1)')", "NULL"),
}


def all_types_row(number: int) -> tuple[str, ...]:
    """The SQL literals of row `number` of all_types, in the order of EDGES."""
    return tuple(values[number % len(values)] for values in EDGES.values())


def create(connection: pymysql.connections.Connection) -> None:
    """Create the database and its empty tables; an existing database is dropped."""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
        cursor.execute(f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {SCHEMA}")
        for statement in _DDL:
            cursor.execute(statement)


def fill(connection: pymysql.connections.Connection, rows: int) -> dict[str, int]:
    """Fill the tables with about `rows` rows in all; returns the rows per table."""
    counts = {table: max(20, rows * share // 100) for table, share in SHARES.items()}
    with connection.cursor() as cursor:
        cursor.execute(f"USE {SCHEMA}")
        # zero dates are part of the data: the strict modes would refuse them
        cursor.execute(f"SET SESSION sql_mode = '', time_zone = '+00:00', {_recursion(cursor)} = 100000000")
        for table, count in counts.items():
            for start in range(0, count, 100_000):
                cursor.execute(_FILL[table].format(start=start + 1, stop=min(start + 100_000, count)))
            connection.commit()
        for number in range(ALL_TYPES_ROWS):
            cursor.execute(insert_all_types(number))
        connection.commit()
    return {**counts, "all_types": ALL_TYPES_ROWS}


def _recursion(cursor: pymysql.cursors.Cursor) -> str:
    """What the server calls the limit of WITH RECURSIVE: MySQL's name, or MariaDB's."""
    names = "'cte_max_recursion_depth', 'max_recursive_iterations'"
    cursor.execute(f"SHOW VARIABLES WHERE Variable_name IN ({names})")
    return str(cursor.fetchall()[0][0])


def insert_all_types(number: int, row_id: int | None = None) -> str:
    """An INSERT (or replacement) of one all_types row holding edges number `number`."""
    columns = ", ".join(EDGES)
    return f"REPLACE INTO all_types (id, {columns}) VALUES ({row_id if row_id is not None else number}, {', '.join(all_types_row(number))})"


_SEQUENCE = "WITH RECURSIVE s (n) AS (SELECT {start} UNION ALL SELECT n + 1 FROM s WHERE n < {stop}) "

_FILL = {
    "customers": "INSERT INTO customers (code, name, email, tier, note_a, balance, created_at, updated_at) "
    + _SEQUENCE
    + """SELECT CONCAT(ELT(1 + n % 4, 'Cust-', 'äß ', 'k😀', 'x.'), n), CONCAT('Name ', n, IF(n % 7 = 0, '   ', '')),
         IF(n % 5 = 0, NULL, CONCAT('c', n, '@example.org')), ELT(1 + n % 3, 'basic', 'silver', 'gold'),
         IF(n % 3 = 0, NULL, CONCAT('a', n)), n * 1.25,
         TIMESTAMPADD(MICROSECOND, n * 1000003, '2020-01-01'), IF(n % 6 = 0, NULL, TIMESTAMPADD(SECOND, n, '2024-01-01'))
       FROM s""",
    "orders": "INSERT INTO orders (id, customer, status, amount, flags, weight, note, placed_at, paid_on) "
    + _SEQUENCE
    + """SELECT n, CONCAT('Cust-', n % 1000), ELT(1 + n % 4, 'new', 'paid', 'shipped', 'returned'), n % 10000 + 0.99,
         ELT(1 + n % 4, '', 'gift', 'gift,express', 'fragile'), IF(n % 9 = 0, NULL, n / 7),
         IF(n % 4 = 0, NULL, CONCAT('note ', n, ' 😀')), TIMESTAMPADD(SECOND, n, '2023-05-05 05:05:05.125'),
         IF(n % 3 = 0, NULL, DATE_ADD('2023-01-01', INTERVAL n % 900 DAY))
       FROM s""",
    "order_items": "INSERT INTO order_items (order_id, line, sku, qty, price) "
    + _SEQUENCE
    + "SELECT n DIV 3, n % 3, CONCAT('SKU', n % 5000), n % 17, n % 1000 + 0.1234 FROM s",
    "events": "INSERT INTO events (at, kind, payload) "
    + _SEQUENCE
    + """SELECT TIMESTAMPADD(SECOND, n DIV 4, '2025-01-01'), ELT(1 + n % 3, 'view', 'click', 'buy'),
         IF(n % 10 = 0, NULL, CONCAT('p', n % 100)) FROM s""",
}
