"""The documentation site: prepares its pages, has Zensical build it, and checks its links."""
