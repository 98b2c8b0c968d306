"""What puts upyclaw on a board and keeps it safe there: install, image, dumps, backup.

Owns the order of steps on a board's flash and what may be touched there. Sessions and memory are
files to it, never content.
"""
