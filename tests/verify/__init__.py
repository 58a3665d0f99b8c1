"""Muster's promises as pytest-testinfra tests of any cluster; see README.md."""
