import os

import pytest

from escape.boxes import Farm, Refused


@pytest.fixture(scope="session")
def farm():
    if os.geteuid() != 0:
        pytest.skip("boxes are made by root")
    farm = Farm()
    try:
        farm.run("probe")
    except Refused as why:
        os.rmdir(farm.state)
        pytest.skip(f"no boxes on this machine: {why}")
    yield farm
    farm.end()


@pytest.fixture(scope="session")
def box(farm):
    """One that all tests may use that leave it as it is."""
    return farm.start(f"{farm.probe}:/probe", pids=512, memory=2 << 30)


@pytest.fixture
def start_box(farm):
    """Boxes for one test."""
    before = list(farm.boxes)
    yield farm.start
    for other in [b for b in farm.boxes if b not in before]:
        other.remove()


@pytest.fixture(params=["gem", "root"])
def root(request):
    return request.param == "root"
