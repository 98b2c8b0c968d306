"""Random numbers that are the same everywhere, for scripts and tests that run in MicroPython."""


class Dice:
    """A linear congruential generator: equal seeds give equal numbers on both runtimes."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        """A number from 0 to n - 1; n at most some ten thousand, or the last ones are rare."""
        self.state = (self.state * 1103515245 + 12345) & 0x7FFFFFFF
        return (self.state >> 8) % n

    def chance(self, percent):
        return self.below(100) < percent

    def pick(self, things):
        return things[self.below(len(things))]
