# MicroPython's `-i` runs this file, then its REPL. Everything else is compiled, to spare the heap.
import simboot

simboot.run()
