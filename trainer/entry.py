"""The image's /workspace/train.py and /home/pytorch/train.py: what job templates name as their script."""

from __future__ import annotations

from trainer.__main__ import main

if __name__ == "__main__":
    main()
