"""The LanceDB backend: embedded, one directory, shared with the TypeScript program."""
