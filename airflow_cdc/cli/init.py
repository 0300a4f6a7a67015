"""`airflow cdc init`: pipelines.yaml, connections and DAGs, the checks of the new pipeline, and the lines to paste next."""

from __future__ import annotations

import json
import shlex
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import airflow_cdc
from airflow_cdc.cli import add_pipeline as added
from airflow_cdc.cli.checks import catalog_needs, on_our_spark
from airflow_cdc.cli.commands import doctor_status, pipeline_checks
from airflow_cdc.cli.jars import packages_with
from airflow_cdc.cli.run import command, emit, pairs, write_file
from airflow_cdc.config import settings
from airflow_cdc.config.registry import load_registry
from airflow_cdc.core.errors import UsageError
from airflow_cdc.kinds import jars_for

PACKAGE: Final = Path(airflow_cdc.__file__).parent
TEMPLATE: Final = "templates/pipelines.yaml"
# a file for each kind: Airflow parses each in a process of its own, and with hundreds of pipelines one would take seconds
STUBS: Final = {
    f"cdc_{kind}.py": f'"""Shows Airflow DAGs of airflow-provider-cdc."""\nfrom airflow_cdc.dags.cdc_{kind} import *\n'
    for kind in ("apply", "backfill", "maintain", "nightly", "recovery", "registry", "repair", "watch")
}
BUNDLE: Final = "airflow-provider-cdc"
NEXT: Final = "next"


@command
def init(args: Namespace) -> int:
    """Write a commented registry where there is none, or add `--pipeline` with its connections and check it.

    Prints the lines to paste, for the DAGs and the jars, or writes stubs of the DAGs. Exit status with `--pipeline`: as
    `doctor`.
    """
    if args.pipeline:
        return _init_pipeline(args)
    facts = _stubs(args.stub) | {"registry": _first_registry(settings.registry_path(args.registry))}
    _show(args, facts, [], pairs(facts))
    return 0


def _init_pipeline(args: Namespace) -> int:
    path = settings.registry_path(args.registry)
    new = added.asked(args)
    wanted = added.connections(new)
    facts = _stubs(args.stub)
    facts["registry"] = added.add_to_registry(path, new, (PACKAGE / TEMPLATE).read_text())
    facts |= added.create(wanted)
    checks = list(pipeline_checks(Namespace(registry=args.registry, pipeline=[args.pipeline])))
    rows = ({"what": f"{c.name}: {c.state}", "value": ". ".join(filter(None, (c.found, c.todo)))} for c in checks)
    data = {**facts, "checks": [check.to_json() for check in checks]}
    _show(args, data, list(_then(args.pipeline, path)), [*pairs(facts), *rows])
    return doctor_status(checks)


def _first_registry(path: Path) -> str:
    if path.exists():
        return f"{path} (exists, left as it is)"
    if not path.parent.is_dir():
        raise UsageError("the folder of the registry does not exist", where=str(path.parent), todo="Create it first.")
    write_file(path, (PACKAGE / TEMPLATE).read_text())
    return f"{path} (written: adapt it)"


# ---- DAGs -------------------------------------------------------------------------------------------


def _stubs(folder: str | None) -> dict[str, object]:
    """Small DAG files in this folder, or in Airflow's own for ""; nothing for None.

    They come first: a folder that does not exist must not leave half of the rest behind.
    """
    if folder is None:
        return {}
    from airflow.sdk.configuration import conf

    place = Path(folder or conf.get("core", "dags_folder")).expanduser()
    if not folder:
        # a new Airflow looks for it, and has not made it
        place.mkdir(parents=True, exist_ok=True)
    if not place.is_dir():
        raise UsageError("the folder does not exist", where=str(place), todo="Name your DAGs folder.")
    for name, text in STUBS.items():
        write_file(place / name, text)
    return {"stubs": f"{', '.join(STUBS)} in {place} (written)"}


def bundles(now: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The list of DAG bundles with ours in it, at its present place."""
    ours = {
        "name": BUNDLE,
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {"path": str(PACKAGE / "dags")},
    }
    return [*(one for one in now if one["name"] != BUNDLE), ours]


# ---- what to paste ----------------------------------------------------------------------------------


def export(variable: str, value: str) -> str:
    """A line for a shell."""
    return f"export {variable}={shlex.quote(value)}"


def _lines(*, stubs: bool, then: Iterable[str]) -> Iterator[str]:
    """All that is left to do, in order: nothing of it is needed twice."""
    from airflow.sdk.configuration import conf

    now = conf.getjson("dag_processor", "dag_bundle_config_list", fallback=None)
    known: Sequence[Mapping[str, object]] = now if isinstance(now, list) else ()
    if not stubs and (wanted := bundles(known)) != list(known):
        yield export("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps(wanted))
    yield from then


def _then(pipeline: str, registry: Path) -> Iterator[str]:
    """The jars that are missing, and the commands up to the first copy."""
    pipelines = load_registry(registry).values()
    ours = [one for one in pipelines if one.has_sink and on_our_spark(one)]
    needs = dict.fromkeys((*jars_for(ours), *(need for one in ours for need in catalog_needs(one))))
    if packages := packages_with(tuple(needs)):
        yield export("AIRFLOW__CDC__SPARK_PACKAGES", packages)
    yield "airflow dags reserialize"
    yield f"airflow cdc doctor {pipeline}"
    yield f"airflow cdc recover {pipeline} --wait"


def _show(args: Namespace, data: Mapping[str, object], then: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    lines = list(_lines(stubs=args.stub is not None, then=then))
    emit(args, {**data, NEXT: lines}, rows)
    if args.output == "table" and lines:
        # outside the table, which would wrap them
        exports = any(line.startswith("export ") for line in lines)
        how = (
            "Give each `export` to every component of Airflow, or set it in airflow.cfg:"
            if exports
            else "In this order:"
        )
        print(f"\nDo this next. {how}\n")
        print("\n".join(lines))
