"""Who runs a command, for the audit."""

from __future__ import annotations

import os
import pwd


def shell_user() -> str:
    """The user of this process, as the system knows it. LOGNAME and USER, which getpass reads first, anybody can set."""
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # in a container
        return f"uid {uid}"
