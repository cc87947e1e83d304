"""The command line: arguments become one call each."""
