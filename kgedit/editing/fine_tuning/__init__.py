"""Fine-tuning of the model's own parameters: of MLP matrices, of all linear layers, of biases or of norms."""
