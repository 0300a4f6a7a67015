"""What every application starts with."""
