"""Networks as ONNX, and from it (onnx.ai): the exchange format of most other programs."""
