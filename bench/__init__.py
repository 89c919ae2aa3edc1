"""Measurements. A figure counts as a ratio to something measured in the same run."""
