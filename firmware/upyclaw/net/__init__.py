"""Wi-Fi, names, time and sockets; imported only on a board that has a network to use."""
