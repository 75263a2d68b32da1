"""What ``streaming.vision.base`` imports."""


class VisionDataset:
    """A base class of data sets that the tests never make."""
