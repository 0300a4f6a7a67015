"""Operators: each resolves its pipeline, calls one step of `flows`, and returns the step's plain dict."""
