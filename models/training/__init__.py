"""The training loop and all that it calls: data, masking, optimisers, checkpoints, validation."""
