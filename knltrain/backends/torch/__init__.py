"""Networks computed by PyTorch: plainly, or with Intel's extension."""
