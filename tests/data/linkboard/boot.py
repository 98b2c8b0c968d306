"""Start-up of the test board: nothing."""
