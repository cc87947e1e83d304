"""Fine-tune on some languages, measure in others: from settings and a folder to scores."""
