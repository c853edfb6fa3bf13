"""How parameters and gradients reach other workers: what an exchange does, where, and when.

rules          the arithmetic between a local and the center (`ExchangeRule`)
transports     where locals and centers lie (`CollectiveTransport`, `VisitedCenter`)
strategies     when a worker takes part, and what of it is hidden behind computing (`Strategy`)
tree_exchange  CaffeGPI's trees: each layer's gradient and weights by one-sided notifications

What carries the bytes is `knltrain.communication`.
"""
