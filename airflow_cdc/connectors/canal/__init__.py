"""Canal."""
