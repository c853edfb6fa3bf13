"""What a process may use, is given, and really has: all that asks the kernel."""
