"""The start-up code that every application shares."""
