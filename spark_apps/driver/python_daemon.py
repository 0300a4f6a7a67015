"""pyspark's daemon on a local master: it has imported what decodes events before it forks a process for a task.

Otherwise each of these processes imports it again, for half a second of processor time, and Spark ends those that have been idle for a
minute. On executors elsewhere the package arrives after their daemon has begun, so they keep pyspark's own.
"""

from __future__ import annotations

import gc
from contextlib import suppress

from pyspark.daemon import manager

from airflow_cdc.core.errors import CdcError
from airflow_cdc.kinds import CONNECTORS


def import_decoders() -> None:
    """Import the decoders of all connectors, as far as what they need is installed."""
    for kind in CONNECTORS.values():
        for reads in kind.reads.values():
            if reads.decoder is not None:
                with suppress(ImportError, CdcError):
                    reads.decoder.load()


if __name__ == "__main__":
    import_decoders()
    gc.freeze()  # a task ends with a look for circles, which need not go through all that was imported
    manager()
