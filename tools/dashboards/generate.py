"""Writes helm/longwave-monitoring/dashboards/*.json from the files beside this one.

    tools/dashboards.sh generate           writes them
    tools/dashboards.sh generate --check   writes nothing; fails if they are not what would be written
"""

import argparse
import json
import pathlib
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder

import admission
import fleet
import learning
import network
import overview
import rounds
import shards
import workers

FOLDER = pathlib.Path(__file__).parents[2] / "helm/longwave-monitoring/dashboards"
ALL = {module.__name__: module.dashboard
       for module in (fleet, overview, rounds, network, shards, workers, learning, admission)}


def text(name):
    """The dashboard in its file's format."""
    return json.dumps(ALL[name](), cls=JSONEncoder, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a file differs")
    check = parser.parse_args().check
    wanted = {FOLDER / f"{name}.json": text(name) for name in ALL}
    there = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    if not check:
        FOLDER.mkdir(exist_ok=True)
        for path in there.keys() - wanted.keys():
            path.unlink()
        for path, content in wanted.items():
            path.write_text(content, encoding="utf-8")
        return 0
    differing = sorted(path.name for path in there.keys() | wanted.keys()
                       if there.get(path) != wanted.get(path))
    for name in differing:
        print(f"dashboards: {name} is not what tools/dashboards.sh generate writes", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
