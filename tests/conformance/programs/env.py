"""The plain script: one process, whose place torch reads from RANK and WORLD_SIZE. Takes any arguments."""

import report

if __name__ == "__main__":
    report.train()
