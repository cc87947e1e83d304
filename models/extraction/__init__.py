"""Text to activations: where items stand in an encoder's input, and their vectors."""
