"""How fast numbers move: operations of CNN training, one definition, several implementations."""
