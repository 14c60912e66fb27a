"""The command line: one small module for each command, nothing heavy imported before it is needed."""
