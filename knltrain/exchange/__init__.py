"""How workers pull on a common center: rules (the arithmetic) and transports (the memory)."""
