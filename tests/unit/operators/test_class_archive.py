"""The archive of a driver's classes: written once, used from then on, and never in the way."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

import pytest

from airflow_cdc import spark_main
from airflow_cdc.operators.class_archive import CLASS_PATH, class_archive
from airflow_cdc.spark_apps.driver.session import JAVA_OPTIONS

CONF = {JAVA_OPTIONS: "-Duser.timezone=UTC", CLASS_PATH: "a.jar"}


def asked(folder: Path | None, conf: dict[str, str]) -> str:
    """The Java options of a driver that writes its archive if it was asked to, and ends well."""
    with class_archive(folder, conf, "spark-submit") as given:
        options = given[JAVA_OPTIONS]
        for word in options.split():
            if word.startswith("-XX:ArchiveClassesAtExit="):
                Path(word.partition("=")[2]).write_text("classes")
    return options


def test_one_driver_writes_the_archive_and_the_next_use_it(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    assert asked(folder, CONF).startswith("-Duser.timezone=UTC -XX:ArchiveClassesAtExit=")
    (archive,) = folder.iterdir()
    assert f"-XX:SharedArchiveFile={archive}" in asked(folder, CONF)
    assert "ArchiveClassesAtExit" in asked(folder, {**CONF, CLASS_PATH: "b.jar"}), "other classes, another archive"


def test_a_driver_that_fails_leaves_no_archive(tmp_path: Path) -> None:
    def fails() -> None:
        with class_archive(tmp_path, CONF, "spark-submit") as given:
            Path(given[JAVA_OPTIONS].split("ArchiveClassesAtExit=")[1].split()[0]).write_text("half")
            raise RuntimeError("the driver was killed")

    with pytest.raises(RuntimeError):
        fails()
    assert list(tmp_path.iterdir()) == []


def test_the_archive_of_a_driver_that_made_no_session_is_not_kept(tmp_path: Path) -> None:
    settings, archives = tmp_path / "settings.json", tmp_path / "archives"
    (tmp_path / spark_main.NO_SESSION_NAME).touch()
    whole = partial(spark_main.needed_session, settings)
    with class_archive(archives, CONF, "spark-submit", whole) as given:
        Path(given[JAVA_OPTIONS].split("ArchiveClassesAtExit=")[1].split()[0]).write_text("few classes")
    assert list(archives.iterdir()) == []
    (tmp_path / spark_main.NO_SESSION_NAME).unlink()
    with class_archive(archives, CONF, "spark-submit", whole) as given:
        Path(given[JAVA_OPTIONS].split("ArchiveClassesAtExit=")[1].split()[0]).write_text("all classes")
    (kept,) = archives.iterdir()
    assert kept.read_text() == "all classes"


def test_without_a_folder_or_with_an_own_archive_the_options_are_as_they_were(tmp_path: Path) -> None:
    assert asked(None, CONF) == "-Duser.timezone=UTC"
    own = {JAVA_OPTIONS: "-XX:SharedArchiveFile=/opt/spark.jsa"}
    assert asked(tmp_path, own) == own[JAVA_OPTIONS]


def test_a_folder_that_cannot_be_made_is_logged_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING):
        assert asked(tmp_path / "file" / "folder", CONF) == "-Duser.timezone=UTC"
    assert "there is no class archive" in caplog.text
