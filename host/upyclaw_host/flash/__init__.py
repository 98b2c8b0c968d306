"""Flash images of a board: LittleFS files, compiled firmware, wear figures.

Owns everything that knows the geometry of an image. Knows nothing of sessions or memory files.
"""
