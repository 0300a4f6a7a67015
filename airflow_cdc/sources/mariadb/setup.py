"""What `airflow cdc init` asks about a MariaDB source."""

from __future__ import annotations

from airflow_cdc.sources.mysql.setup import server

SETUP = server("mariadb", "MariaDB")
