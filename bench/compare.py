"""make bench-compare: the rows of `make bench`, of this build and of an earlier commit's, in turns.

The earlier program is measured by this bench, so a row that it cannot serve is said to have failed. A row is worse
where its median is, by more than 5 % beyond what the earlier one's own rounds differ by: that is said loudly, and is
the exit status."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from measure import median
from run import ROWS

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORSE = 1.05


def rounds_of(row, programs, rounds):
    """{what: ([values of the first program], [of the second], unit)} of all lines that the row has."""
    lines = {}
    for _ in range(rounds):
        for which, program in enumerate(programs):
            for line in one_round(row, program):
                found = re.fullmatch(r"([\d.,]+)\s*(\S*)", line["ours"])
                if found:
                    values = lines.setdefault(line["what"], ([], [], found[2]))
                    values[which].append(float(found[1].replace(",", "")))
    return lines


def one_round(row, program):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([sys.executable, ROOT / "bench/run.py", "--row", row, "--json", file.name], check=True,
                       env={**os.environ, "AIO": str(program), "BENCH_SHARE": "0.3"}, stdout=subprocess.DEVNULL)
        return json.load(file)


def spread(values):
    return (max(values) - min(values)) / median(values) if median(values) else 0.0


def verdict(old, new, unit):
    """The factor by which the new one is slower, or larger; and whether that is more than the spread."""
    better, worse = (median(new), median(old)) if unit.endswith("/s") else (median(old), median(new))
    factor = worse / better if better else 1.0 if worse == 0 else float("inf")
    return factor, factor > WORSE + spread(old)


def main():
    parser = argparse.ArgumentParser(description="Compares the rows of make bench with an earlier program's.")
    parser.add_argument("old", help="the earlier program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--row", action="append", help="only this one (may be repeated)")
    args = parser.parse_args()
    names = args.row or [name for name, _, _ in ROWS]
    worse = 0
    print(f"{'row':52} {'before':>12} {'now':>12} {'unit':6} factor  spread before, now", flush=True)
    for name in names:
        for what, (old, new, unit) in rounds_of(name, (args.old, ROOT / "build/aio"), args.rounds).items():
            if not old or not new:
                worse += not new
                print(f"{what:52} {'failed' if not old else '':>12} {'failed' if not new else '':>12}", flush=True)
                continue
            factor, bad = verdict(old, new, unit)
            worse += bad
            print(f"{what:52} {median(old):12,.2f} {median(new):12,.2f} {unit:6} {factor:5.2f}   "
                  f"{spread(old):4.0%} {spread(new):4.0%}{'  *** WORSE ***' if bad else ''}", flush=True)
    sys.exit(worse > 0)


if __name__ == "__main__":
    main()
