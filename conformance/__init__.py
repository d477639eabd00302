"""Launch cases as people publish them, run as real processes: before rankfix, after it, and with what else there is."""
