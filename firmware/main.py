"""Start the app; a start that fails is tried again (upyclaw/safe.py)."""

try:
    import upyclaw.app

    upyclaw.app.main()
except Exception as error:
    import upyclaw.safe

    upyclaw.safe.start_failed(error)
