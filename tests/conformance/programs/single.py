"""No torch.distributed at all: one pod of a search over settings, which trains for itself."""

import report

if __name__ == "__main__":
    report.alone()
