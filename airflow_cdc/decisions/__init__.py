"""Decisions: functions of values alone, without I/O. Standard library only; no system is named here."""
