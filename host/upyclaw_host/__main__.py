"""`python -m upyclaw_host` is the command `upyclaw`."""

from upyclaw_host.cli import main

main()
