"""The one error that a user reads."""


class Refusal(Exception):
    """Something that ends a launch before it begins; the text is one sentence: host, found, expected, fix."""
