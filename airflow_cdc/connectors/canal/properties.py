"""Canal's two files of settings, read as Java reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from airflow_cdc.connectors.java_properties import parse
from airflow_cdc.core.errors import ConnectorError

DESTINATION: Final = "canal.instance.destination"


def read_config(conf: str, destination: str, where: str) -> dict[str, str]:
    """canal.properties and the destination's instance.properties, whose values win. Raises ConnectorError.

    A property that was given to the server's JVM with -D is not seen.
    """
    files = (Path(conf) / "canal.properties", Path(conf) / destination / "instance.properties")
    config: dict[str, str] = {}
    for file in files:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
            config |= {name: value.strip() for name, value in parse(text).items()}
        except ValueError as error:
            raise ConnectorError(
                f"{file} cannot be read: {error}", where=where, todo="Correct that escape: Canal cannot read it either."
            ) from None
        except OSError as error:
            raise ConnectorError(
                f"{file} cannot be read: {error.strerror}",
                where=where,
                todo="Correct connector.conf and connector.name in pipelines.yaml; the folder must be there on the worker.",
            ) from None
    return {**config, DESTINATION: destination}
