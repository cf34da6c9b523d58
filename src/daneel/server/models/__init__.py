"""Models: what they are called, where they are, how they get here, and whether they fit. Start at `resolve`."""

from daneel.server.models.fit import FitReport, check_fit
from daneel.server.models.resolve import ResolvedModel, find, resolve

__all__ = ["FitReport", "ResolvedModel", "check_fit", "find", "resolve"]
