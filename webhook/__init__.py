"""rankfix: an admission webhook that repairs the rank environment of PyTorchJob pods."""
