"""The page that shows a recording in the browser, and its server."""
