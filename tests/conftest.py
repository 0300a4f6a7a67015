"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

# how long one example takes says how busy the machine is, and nothing about the code
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
