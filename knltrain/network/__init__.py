"""Networks as plain descriptions: layers, shapes, and one packed vector of parameters."""
