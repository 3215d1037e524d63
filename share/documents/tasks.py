"""What the worker can do with a document; each task takes a job and a descriptor, and returns text and
facts. Whatever it raises is told to the caller."""

import sys

from unpack import unpack
from refused import Refused

problem = None
try:
    from convert import convert
    from view import view
except ImportError as missing:
    problem = f"documents need markitdown, which is not installed for {sys.executable}: {missing}"


def unavailable(_job, _document):
    raise Refused("unavailable", problem)


TASKS = {
    "convert": unavailable if problem else convert,
    "view": unavailable if problem else view,
    "unpack": unpack,
}
