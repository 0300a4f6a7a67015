"""The reports that runs store for people, and the pages built from them."""
