"""What ``streaming.vision.base`` imports."""


def to_tensor(image: object) -> object:
    """Never called."""
    raise NotImplementedError
