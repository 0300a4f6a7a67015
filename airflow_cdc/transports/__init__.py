"""Transports between connector and sink, a folder per system."""
