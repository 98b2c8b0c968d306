"""The model side of the board: errors, reading of replies, the turn's collector, clients."""
