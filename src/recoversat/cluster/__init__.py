"""A corpus of any size: cut into shards, worked off by any number of machines, put together again."""
