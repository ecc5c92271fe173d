"""The Qdrant backend: one server for a fleet, whose tenants share collections."""
