"""Options of the commands: one module for each group, imported only when needed."""
