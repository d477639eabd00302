"""What a cluster is given to run rankfix: objects as plain data, made from one set of values, printed as YAML."""
