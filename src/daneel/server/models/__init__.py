"""Models: what they are called, where they are, how they get here, and whether they fit. Start at `resolve`."""

from daneel.server.models.resolve import ResolvedModel, find, resolve

__all__ = ["ResolvedModel", "find", "resolve"]
