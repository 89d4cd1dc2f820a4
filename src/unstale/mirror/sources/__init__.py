"""The sources that come with unstale; see `unstale.mirror.source` for what a source is."""
