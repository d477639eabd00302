"""`make demo`: the real server, real pods, and what becomes of them. A program of the checkout, not of the wheel."""
