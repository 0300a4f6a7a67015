"""Transports between connector and sink, one folder per system."""
