"""pyspark's daemon on a local master: it has imported what decodes events before it forks a process for a task.

Otherwise each of these processes imports it again, for half a second of processor time, and Spark ends those that have been idle for a
minute. On executors elsewhere the package arrives after their daemon has begun, so they keep pyspark's own.
"""

from __future__ import annotations

import gc

from pyspark.daemon import manager

import airflow_cdc.connectors.debezium.events.frames
import airflow_cdc.connectors.debezium.events.mysql
import airflow_cdc.connectors.debezium.events.postgres
import airflow_cdc.spark_apps.events  # noqa: F401 - what is imported here is there in each process

if __name__ == "__main__":
    gc.freeze()  # a task ends with a look for circles, which need not go through all that was imported
    manager()
