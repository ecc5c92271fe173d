"""Stores: the `VectorStore` protocol and one module per backend."""
