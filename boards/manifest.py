# What every board freezes: the package and the two files that start it. No list of modules: all of
# firmware/upyclaw goes in, so nothing can be forgotten here.
package("upyclaw", base_path="../firmware", opt=3)
module("boot.py", base_path="../firmware", opt=3)
module("main.py", base_path="../firmware", opt=3)
