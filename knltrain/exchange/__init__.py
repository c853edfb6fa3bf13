"""Exchanges of parameters and gradients between workers.

rules          the arithmetic between a local and the center (`ExchangeRule`)
transports     where locals and centers lie (`CollectiveTransport`, `VisitedCenter`)
strategies     when a worker takes part, and what is hidden behind computing (`Strategy`)
tree_exchange  CaffeGPI's trees: each layer's gradient and weights by one-sided writes

`knltrain.communication` transfers the bytes.
"""
