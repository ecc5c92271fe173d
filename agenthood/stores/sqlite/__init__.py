"""The SQLite backend: embedded, one file, vectors through sqlite-vec."""
