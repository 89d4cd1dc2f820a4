"""What a mirror keeps: the contract of a store, the copies, and the store in SQL."""
