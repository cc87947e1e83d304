"""What a model is: its shape, its layers, what its languages share, and taking it apart."""
