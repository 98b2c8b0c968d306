"""What the model may call. A tool is any object with

name         ASCII letters, digits, `_`, `-`; at most 64 characters
description  one or two sentences for the model
schema       JSON schema of the arguments, as bytes
async run(args, context)    `args` is a dict, `context` what the agent passes on; gives the result
             as str, as UTF-8 in bytes or bytearray; or, to save copies, as a memoryview of clean
             UTF-8, 1 to 4,096 bytes, which is passed on as it is

and, if it wants, `seconds`: how long it may take (default 20), and `sleep()`, called when the
description and the schema have been sent.
"""
