"""What a comparison of source and sink means."""
