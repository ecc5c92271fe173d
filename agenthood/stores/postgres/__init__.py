"""The Postgres backend: one server for many hoods, with pgvector."""
