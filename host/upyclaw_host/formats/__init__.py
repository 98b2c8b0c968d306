"""Independent, typed readers of the files a board keeps: the witness beside the device's code.

Owns: how the bytes of session files, chat maps and memory folders are understood on the PC. Shares
no code with the device package `upyclaw` and never imports it; reads bytes, never writes a file,
never raises on any content (damage becomes a `Finding` with file and byte).
"""
