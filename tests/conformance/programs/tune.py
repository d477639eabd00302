#!/usr/bin/env python
"""Stand-in for torchtune's `tune run [TORCHRUN FLAGS] RECIPE --config C`: torchrun with the recipe's file."""

import sys

from torch.distributed.run import main

if __name__ == "__main__":
    assert sys.argv[1] == "run"
    main([f"{word}.py" if word == "full_finetune_distributed" else word for word in sys.argv[2:]])
