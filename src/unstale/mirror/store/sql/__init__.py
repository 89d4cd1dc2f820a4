"""A store in SQL: an SQLite file, or a PostgreSQL database."""
