"""What runs leave behind for people, and the pages made of it."""
