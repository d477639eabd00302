"""From command, args and env to the commands that run, their words followed as values (rank contract, section 4)."""
