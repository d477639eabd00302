"""A DDP MNIST job that runs however it is launched, and proves that the ranks are right."""
