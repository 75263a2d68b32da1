"""Beam graphs that prepare data sets, and the engines that run them."""

import logging


def _matters(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("apitools not found")


# Beam says so whenever it is imported, in every worker; nobody needs it here.
logging.getLogger().addFilter(_matters)
