"""Arrays and labels to fitted probes and figures."""
