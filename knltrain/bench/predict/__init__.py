"""`knltrain bench predict`: the step of every method on several hosts, predicted and measured."""
