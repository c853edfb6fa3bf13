"""What is typed behind the words: one module for each group of options, read only when needed."""
