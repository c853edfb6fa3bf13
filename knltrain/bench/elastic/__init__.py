"""What `knltrain.elastic` costs a loop of PyTorch."""
