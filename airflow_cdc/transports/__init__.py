"""What lies between connector and sink, a folder per system."""
