"""What the model may call. A tool is any object with

name         ASCII letters, digits, `_`, `-`; at most 64 characters
description  one or two sentences for the model
schema       JSON schema of the arguments, as bytes
async run(args, context) -> str    `args` is a dict, `context` what the agent passes on

and, if it wants, `seconds`: how long it may take (default 20).
"""
