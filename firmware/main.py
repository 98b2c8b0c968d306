"""Start the app."""

import upyclaw.app

upyclaw.app.main()
