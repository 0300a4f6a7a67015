"""CDC engines, a folder per system: how they are stopped and started, and what they keep as their offset."""
