"""How fast numbers move: the operations of CNN training, one definition and several implementations."""
