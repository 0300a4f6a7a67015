"""Reads names of pipelines, or commands as lists of words, and answers with what `airflow cdc … -o json` prints, one line each."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from typing import Any

from airflow.cli import cli_parser

from tests.integration.no_sink_watch import watched


def answer_to(words: list[str]) -> dict[str, Any]:
    """The output of `airflow cdc …`, its exit status, duration and, if it ended with one, its error; or what the watch sees."""
    out, said, began, status = io.StringIO(), io.StringIO(), time.monotonic(), None
    if words[0] == "watch":
        return {"status": 0, "seconds": 0.0, "answer": watched(words[1]), "error": ""}
    args = cli_parser.get_parser().parse_args(["cdc", *words, "-o", "json"])
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        try:
            args.func(args)
        except SystemExit as ended:
            status = ended.code
    text = out.getvalue()
    seconds = round(time.monotonic() - began, 2)
    return {
        "status": status or 0,
        "seconds": seconds,
        "answer": json.loads(text) if text.strip() else None,
        "error": said.getvalue(),
    }


def main() -> None:
    """Answer until the input ends: a line is a pipeline's name, or a list of words as JSON."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Airflow logs belongs to no answer
    for line in sys.stdin:
        asked = line.strip()
        answer = answer_to(json.loads(asked) if asked.startswith("[") else ["diagnose", asked])
        print(json.dumps(answer, default=str), file=answers, flush=True)


if __name__ == "__main__":
    main()
