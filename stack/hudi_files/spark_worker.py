"""One Spark session that does what it is asked, a line of JSON at a time (run by the Python of Hudi's own Spark).

A request on standard input is `{"sql": TEXT}`, `{"functions": true}`, which registers the applications' own functions, or
`{"write": {"query": TEXT, "path": PATH, "mode": MODE, "options": {…}}}`; its answer on standard output is `{"rows": [[…]]}`
or `{"error": TEXT}`. The session ends with its input.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.sql import SparkSession


def open_session(conf: dict[str, str]) -> Any:
    """A session with two cores."""
    builder = SparkSession.builder.master("local[2]").appName("hudi")
    for key, value in {**conf, "spark.sql.variable.substitute": "false"}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def do(spark: Any, request: dict[str, Any]) -> list[Any]:
    """Run one request; the rows that it returns."""
    if "sql" in request:
        return [list(row) for row in spark.sql(request["sql"]).collect()]
    if "functions" in request:
        from airflow_cdc.spark_apps.driver.functions import register_functions

        register_functions(spark)
        return []
    write = request["write"]
    writer = spark.sql(write["query"]).write.format("hudi").options(**write["options"])
    writer.mode(write["mode"]).save(write["path"])
    return []


def answer(spark: Any, line: str) -> dict[str, Any]:
    """The answer to one line."""
    try:
        return {"rows": do(spark, json.loads(line))}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Answer until the input ends. Whatever Java prints goes to standard error, not among the answers."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = open_session(json.loads(sys.argv[1]))
    print(json.dumps({"rows": []}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(spark, line), default=str), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
