"""Maps from one space to another: rotations, linear maps, self-learning."""
