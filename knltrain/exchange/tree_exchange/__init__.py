"""CaffeGPI's protocol over one-sided writes: gradients up a tree, weights down, layer by layer."""

from knltrain.exchange.tree_exchange.tree_exchange import TreeExchange, Update

__all__ = ["TreeExchange", "Update"]
