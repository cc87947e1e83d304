"""How likely a language model holds words and sentences."""
