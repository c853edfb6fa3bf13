"""`knltrain bench ddp`: PyTorch's DistributedDataParallel over our backend and over others."""
