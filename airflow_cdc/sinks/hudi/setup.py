"""What `airflow cdc init` asks about a Hudi sink."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup


def keys(_name: str, answers: Answers) -> Sequence[Key]:
    """The keys under `sink`."""
    return (
        Key("path", answers["hudi_path"], "the folder of the tables, shared by Airflow's workers and Spark"),
        Key("namespace", answers["hudi_namespace"], "the folder's folder for this pipeline"),
        # the only one that the transport allows
        Key("writer", "connector" if answers["transport_kind"] == "direct" else "cdc_apply", "who writes the tables"),
    )


def connections(_name: str, _answers: Answers) -> Sequence[NewConnection]:
    """None: a folder takes no credentials."""
    return ()


SETUP = Setup(
    (
        Question("hudi_path", "Folder of the Hudi tables, an absolute path", example="/lake/hudi"),
        Question("hudi_namespace", "Folder in it for this pipeline (default: the pipeline's name)", as_pipeline=True),
    ),
    keys,
    connections,
)
