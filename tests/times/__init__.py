"""Where a run's minutes go: by part, by file, and by what the tests waited for (`make test-times`)."""
