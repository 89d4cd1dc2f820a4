"""Sources ``feed`` and ``sitemap``: documents that name other elements."""
