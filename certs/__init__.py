"""The TLS identity of the webhook: made here, renewed here, and known to no other package."""
