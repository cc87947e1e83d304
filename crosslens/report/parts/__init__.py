"""What every page is built of: layout, drawing, wording, style."""
