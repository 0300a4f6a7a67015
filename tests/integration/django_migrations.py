"""`python django_migrations.py django|wagtail first|next COUNT|left`: migrations of a framework's own apps, as they are.

The database is in the environment: CDC_DB_HOST, CDC_DB_PORT, CDC_DB_USER, CDC_DB_PASSWORD, CDC_DB_NAME. `first` makes the
tables of Django's own apps by their first migrations, `next` runs COUNT more and prints their names, `left` prints how many
are left. `next` stops before one that the server refuses. Imports nothing of this project: it runs in the framework's environment.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import pymysql

GTID_CONSISTENCY = 3775
OWN = ("contenttypes", "auth", "admin", "sessions", "sites", "redirects", "flatpages")
DJANGO = tuple(f"django.contrib.{app}" for app in OWN)
WAGTAIL = (
    "wagtail.contrib.forms", "wagtail.contrib.redirects", "wagtail.contrib.search_promotions", "wagtail.contrib.settings",
    "wagtail.embeds", "wagtail.sites", "wagtail.users", "wagtail.snippets", "wagtail.documents", "wagtail.images",
    "wagtail.search", "wagtail.admin", "wagtail", "modelsearch", "modelcluster", "taggit",
    *(f"django.contrib.{app}" for app in ("contenttypes", "auth", "admin", "sessions", "messages", "staticfiles")),
)  # fmt: skip
APPS = {"django": DJANGO, "wagtail": WAGTAIL}
FIRST = {"django": OWN, "wagtail": ("contenttypes", "auth", "admin", "sessions")}


def main(framework: str, what: str, count: int = 1) -> None:
    """Do it."""
    _configure(APPS[framework])
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    if what == "first":
        executor.migrate([(app, "0001_initial") for app in FIRST[framework]])
        return
    plan = [migration for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]
    if what == "left":
        print(len(plan))
        return
    for migration in plan[:count]:
        if not _ran(connection, migration):
            return
        print(f"{migration.app_label}.{migration.name}")


def _ran(connection: Any, migration: Any) -> bool:
    """Run it; False where a server with GTIDs refuses it, whoever replicates (MySQL 8.0.15: a default that is an expression)."""
    from django.db import OperationalError
    from django.db.migrations.executor import MigrationExecutor

    try:
        MigrationExecutor(connection).migrate([(migration.app_label, migration.name)])
    except OperationalError as error:
        if error.args[0] != GTID_CONSISTENCY:
            raise
        return False
    return True


def _configure(apps: tuple[str, ...]) -> None:
    # Django asks for a version of another driver, whose interface this one has
    pymysql.version_info = (2, 2, 1, "final", 0)
    pymysql.install_as_MySQLdb()
    import django
    from django.conf import settings

    database = {key: os.environ[f"CDC_DB_{key}"] for key in ("HOST", "PORT", "USER", "PASSWORD", "NAME")}
    settings.configure(
        INSTALLED_APPS=apps,
        DATABASES={"default": {"ENGINE": "django.db.backends.mysql", **database}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        SITE_ID=1,
        USE_TZ=True,
        SECRET_KEY="x" * 50,
        WAGTAIL_SITE_NAME="x",
        WAGTAILADMIN_BASE_URL="http://localhost",
        STATIC_URL="/static/",
    )
    django.setup()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
