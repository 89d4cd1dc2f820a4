"""Source ``sql``: tables, queries and partitions of tables in databases."""
