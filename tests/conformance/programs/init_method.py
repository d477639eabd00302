"""Takes the rendezvous' address from PYTORCH_DIST_INIT_METHOD, as some clusters' images expect it."""

import os

import report

if __name__ == "__main__":
    report.train(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["PYTORCH_DIST_INIT_METHOD"])
