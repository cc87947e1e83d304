"""Run folders as the report reads them."""
