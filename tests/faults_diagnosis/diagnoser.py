"""Reads names of pipelines and answers with what `airflow cdc diagnose NAME -o json` prints, one line each."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from typing import Any

from airflow.cli import cli_parser


def diagnose(name: str) -> dict[str, Any]:
    """The command's output, exit status and duration."""
    out, began, status = io.StringIO(), time.monotonic(), None
    args = cli_parser.get_parser().parse_args(["cdc", "diagnose", name, "-o", "json"])
    with contextlib.redirect_stdout(out):
        try:
            args.func(args)
        except SystemExit as ended:
            status = ended.code
    text = out.getvalue()
    seconds = round(time.monotonic() - began, 2)
    return {"status": status, "seconds": seconds, "answer": json.loads(text) if text.strip() else None}


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        answer = diagnose(line.strip())
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
