"""MariaDB: what it answers otherwise than MySQL."""
