"""The sources that come with unstale; `unstale.mirror.source` says what a source is."""
