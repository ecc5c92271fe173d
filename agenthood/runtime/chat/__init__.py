"""Chat models: the words every provider is spoken to in, and one module per kind of provider."""
