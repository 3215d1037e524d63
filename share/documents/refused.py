class Refused(Exception):
    """Why there is no answer: a kind that the server knows, and a sentence."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind
