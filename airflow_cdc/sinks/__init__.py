"""Where the rows go, a folder per system."""
