"""A minute of `make soak`."""

import os
import random

import pytest

from hosts import why_not
from soak.soak import Soak

pytestmark = pytest.mark.serial


@pytest.mark.skipif(why_not() is not None, reason=f"no host here: {why_not()}")
@pytest.mark.timeout(600)
def test_a_minute():
    soak = Soak(60, int(os.environ.get("SEED", random.randrange(10**6))))
    try:
        soak.run()
    finally:
        print("\n".join(soak.summary()))
