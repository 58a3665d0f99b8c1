"""How a node takes the tools that make its Python environments, sent over stdin; it knows nothing of what they do."""
