"""make soak MINUTES=20 SEED=7 WITHOUT=makers,maker"""

import argparse
import random
import sys

from soak.faults import FAULTS
from soak.soak import Soak
from soak.world import Failure


def main():
    parser = argparse.ArgumentParser(prog="soak")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--without", default="", help=f"faults to leave out: {', '.join(FAULTS)}")
    given = parser.parse_args()
    print(f"soak: {given.minutes:g} minutes, seed {given.seed}", flush=True)
    soak = Soak(given.minutes * 60, given.seed, given.without.split(","))
    try:
        soak.run()
    except Failure as failure:
        print(failure)
        return 1
    finally:
        print("\n".join(soak.summary()))
    print("soak: nothing acknowledged was lost, nothing crossed boxes, nothing is left over")
    return 0


sys.exit(main())
