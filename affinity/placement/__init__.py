"""Who gets which cores and which memory: pure functions of a machine and a request."""
