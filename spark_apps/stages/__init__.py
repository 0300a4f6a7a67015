"""What several applications do with stages: catch them up, compare them, put their rows right, publish them."""
