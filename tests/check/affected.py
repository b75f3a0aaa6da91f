"""Which files a change can affect, by the include graph.

A file is affected if it changed, or if it includes a file that is affected. What a header declares, the source of the same name
defines: a change of the source affects what includes the header. A change of a folder's CMakeLists.txt affects the folder; one of
a file that all builds read, everything. Files without includes (scripts, charts) are affected by their own change alone.
"""

import collections
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = (".h", ".cc", ".cu", ".cuh", ".c")
# Every build reads these.
EVERYTHING = ("CMakeLists.txt", "CMakePresets.json", "cmake/", "tools/setup.sh", "tests/CMakeLists.txt", "tests/support/precompiled.h")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def tracked():
    return [name for name in git("ls-files", "-z").split("\0") if name]


def has(commit):
    """Whether the clone has the commit; a shallow one may not."""
    return bool(commit) and subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True).returncode == 0


def changed(base):
    """Files that differ from the commit `base`, those that are gone among them; None if the clone has no such commit."""
    if not has(base):
        return None
    return [name for name in git("diff", "--name-only", "--no-renames", "-z", base).split("\0") if name]


def includers(texts):
    """Of each file, the files that include it; `texts` has the text of every tracked source by name.

    A path is from the top folder, from the including file's, or of the generated protocol, which stands for proto/.
    """
    by = collections.defaultdict(set)
    for name, text in texts.items():
        for path in INCLUDE.findall(text):
            beside = (pathlib.PurePosixPath(name).parent / path).as_posix()
            # A path that names no file may be of one that the change removes.
            by[beside if beside in texts else path].add(name)
            if path.startswith("longwave/v1/"):
                by["proto/"].add(name)
    return by


def affected(changes, texts):
    """The files that `changes` can affect, as the module says; None for everything."""
    if any(name in EVERYTHING or name.startswith(tuple(e for e in EVERYTHING if e.endswith("/"))) for name in changes):
        return None
    by = includers(texts)
    reached, waiting = set(), list(changes)
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        waiting += by[name]
        path = pathlib.PurePosixPath(name)
        if path.name == "CMakeLists.txt":
            waiting += [other for other in texts if pathlib.PurePosixPath(other).parent == path.parent]
        if path.suffix in (".cc", ".cu"):
            waiting += [header for header in (path.with_suffix(".h").as_posix(),) if header in texts]
        if path.parts[0] == "proto":
            waiting += by["proto/"]
    return reached


def texts_of_tree():
    return {name: (ROOT / name).read_text(encoding="utf-8", errors="replace")
            for name in tracked() if name.endswith(CODE) and (ROOT / name).is_file()}
