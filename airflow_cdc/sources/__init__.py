"""Source databases, a folder per system: its client, its positions and types, and what can go wrong with it."""
