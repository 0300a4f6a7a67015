"""`python -m tests.integration.django_migrations first|next|left`: migrations of Django's own apps, as they are.

The database is in the environment: CDC_DB_HOST, CDC_DB_PORT, CDC_DB_USER, CDC_DB_PASSWORD, CDC_DB_NAME. `first` makes every
app's tables by its first migration, `next` runs one more, `left` prints how many are left.
"""

from __future__ import annotations

import os
import sys

import pymysql

APPS = ("contenttypes", "auth", "admin", "sessions", "sites", "redirects", "flatpages")


def main(what: str) -> None:
    """Do it."""
    _configure()
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    if what == "first":
        executor.migrate([(app, "0001_initial") for app in APPS])
        return
    plan = [migration for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]
    if what == "next":
        executor.migrate([(plan[0].app_label, plan[0].name)])
        print(f"{plan[0].app_label}.{plan[0].name}")
    else:
        print(len(plan))


def _configure() -> None:
    # Django asks for a version of another driver, whose interface this one has
    pymysql.version_info = (2, 2, 1, "final", 0)
    pymysql.install_as_MySQLdb()
    import django
    from django.conf import settings

    database = {key: os.environ[f"CDC_DB_{key}"] for key in ("HOST", "PORT", "USER", "PASSWORD", "NAME")}
    settings.configure(
        INSTALLED_APPS=[f"django.contrib.{app}" for app in APPS],
        DATABASES={"default": {"ENGINE": "django.db.backends.mysql", **database}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        SITE_ID=1,
        USE_TZ=True,
    )
    django.setup()


if __name__ == "__main__":
    main(sys.argv[1])
