"""Values, ports and rules that all parts share: standard library only, no I/O."""
