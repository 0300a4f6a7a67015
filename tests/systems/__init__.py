"""Each supported system's own failure, recovered under writes and compared row by row: `make systems`."""
