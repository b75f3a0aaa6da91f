"""The rules for every source, as a test: lengths, guards, floors of includes, words, links, names of tests."""

import json
import os
import pathlib
import re
import subprocess
import tomllib
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CODE = (".h", ".cc", ".cu", ".cuh")
# Other sources with comments, by the ends of their names.
SCRIPTS = (".proto", ".py", ".sh", ".yaml", ".yml", ".tpl", ".cmake", ".toml", ".service", ".sbatch", ".server", ".worker",
           ".python", "CMakeLists.txt", "Makefile", ".ci/run")

DOCS_WORDS_MAX, DOCS_COLUMNS_MAX, README_LINES_MAX = 45_000, 130, 100

# Limits of files' lengths. Longer files may not grow, and leave the list once they fit.
PRODUCT_LINES_MAX, TEST_LINES_MAX = 400, 650
LONGER = {
    "common/security/certificates.cc": 450,
    "server/service/coordinator_service.cc": 530,
    "server/service/shard_service.cc": 470,
}

# A comment begins with a noun that names the actor, or with a verb, and with none of these words.
NO_FIRST_WORDS = "What|Who|Whom|Whose|That|Those|This|These|It|Its|They|He|One"
# The same of a paragraph or an item of a page, where "one" counts and "this" shows what is meant.
NO_FIRST_WORDS_OF_PAGES = "What|Who|Whom|Whose|It|Its|They|He"

# Words that the project does not use, and why.
WORDS = {
    r"FIXME|\bTODO\b|\bXXX\b": "an issue says it",
    r"\bgossip|\bturn(ed|s)? away\b": "say reject",
    r"\bpypi\.org\b": "package managers know their registries",
}


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, check=True, capture_output=True)
    return [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def floors():
    """The line of floors.txt that names a folder."""
    numbers = {}
    for number, line in enumerate((HERE / "floors.txt").read_text(encoding="utf-8").splitlines()):
        for folder in line.split("#")[0].split():
            numbers[folder] = number
    return numbers


def folder_of(name, known):
    """The longest folder of floors.txt that a path is in."""
    parts = name.split("/")[:-1]
    while parts and "/".join(parts) not in known:
        parts.pop()
    return "/".join(parts)


def slug(heading):
    """The anchor that GitHub gives a heading."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-")


def prose(text):
    """A page without its blocks of code."""
    return re.sub(r"(?m)^(?:    .*|```[\s\S]*?^```)$", "", text)


def links(name):
    """The relative links of a page: the file's path in the tree, and the anchor."""
    for target in re.findall(r"\]\s?\(([^)\s]+)\)", prose(text_of(name))):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            file = (ROOT / name).parent / path if path else ROOT / name
            yield target, pathlib.Path(os.path.normpath(file)), anchor


def first_words(text, mark):
    """The first lines of comments that begin with one of NO_FIRST_WORDS, as "line: text". Further lines of a comment
    do not count."""
    found, before = [], ""
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        begins = not re.match(rf"{mark}( |$)", before)
        openers = [r"\{\{-? ?/\* ", '"""'] + [mark + " "] * begins
        if re.match(rf"({'|'.join(openers)})({NO_FIRST_WORDS})\b", line):
            found.append(f"{number}: {line}")
        before = line
    return found


class Tidy(unittest.TestCase):
    def test_files_are_short(self):
        for name in tracked("*.h", "*.cc", "*.cu", "*.cuh", "*.py", "*.sh"):
            lines = text_of(name).count("\n")
            limit = TEST_LINES_MAX if name.startswith("tests/") else PRODUCT_LINES_MAX
            with self.subTest(name):
                if name in LONGER:
                    self.assertGreater(lines, limit, "it fits: it leaves the list of longer files")
                    limit = LONGER[name]
                self.assertLessEqual(lines, limit)

    def test_guards_are_the_paths(self):
        for name in tracked("*.h", "*.cuh"):
            # Programs include an installed header by its own path.
            path = re.sub(r"[^A-Z0-9]", "_", name.split("include/")[-1].upper())
            guard = ("" if path.startswith("LONGWAVE") else "LONGWAVE_") + path + "_"
            with self.subTest(name):
                self.assertTrue(f"#ifndef {guard}\n#define {guard}\n" in text_of(name), f"wanted the guard {guard}")

    def test_includes_go_down(self):
        known = floors()
        for name in tracked(*("*" + ending for ending in CODE)):
            if name.startswith("tests/"):
                continue
            own = folder_of(name, known)
            with self.subTest(name):
                self.assertIn(own, known, "floors.txt names the folder")
                for path in re.findall(r'^#include "([^"]+)"', text_of(name), re.MULTILINE):
                    other = folder_of(path, known)
                    self.assertFalse(path.startswith("tests/"), f"it includes {path}")
                    if other not in ("", own):
                        self.assertLess(known[other], known[own], f"it includes {path}")

    def test_words(self):
        for name in tracked("*.h", "*.cc", "*.cu", "*.cuh", "*.py", "*.sh", "*.md", "*.proto", "*.txt"):
            if name.startswith("tests/tidy/"):
                continue
            for pattern, why in WORDS.items():
                found = re.search(pattern, text_of(name))
                with self.subTest(name):
                    self.assertIsNone(found, f"{found and found.group()}: {why}")

    def test_comments_begin_with_their_subject(self):
        for name in tracked(*("*" + ending for ending in (*CODE, *SCRIPTS))):
            is_code = name.endswith((*CODE, ".proto"))
            with self.subTest(name):
                self.assertEqual(first_words(text_of(name), "//" if is_code else "#"), [])

    def test_pages_begin_with_their_subject(self):
        for name in tracked("*.md"):
            if name == "CHANGELOG.md":
                continue
            begins = re.findall(rf"(?m)(?:(?<=\n\n)|^ *(?:- |\d+\. ))({NO_FIRST_WORDS_OF_PAGES})\b(.*)$", prose(text_of(name)))
            with self.subTest(name):
                self.assertEqual(begins, [])

    def test_strings_begin_with_their_subject(self):
        text = r'"(?:[^"\\\n]|\\.)*"'
        for name in tracked("cli/*.cc", "common/*.cc", "kernels/*.cc", "server/*.cc", "worker/*.cc", "python/*.py"):
            # Adjacent ones are one.
            first = re.findall(rf'(?<!")({text})(?:\s*{text})*', text_of(name))
            with self.subTest(name):
                self.assertEqual([one for one in first if re.match(rf'"({NO_FIRST_WORDS_OF_PAGES}) ', one)], [])

    def test_links_lead_somewhere(self):
        for name in tracked("*.md"):
            for target, file, anchor in links(name):
                with self.subTest(f"{name}: {target}"):
                    self.assertTrue(file.exists())
                    if anchor and file.suffix == ".md":
                        headings = re.findall(r"(?m)^#+ (.*)$", prose(file.read_text(encoding="utf-8")))
                        self.assertIn(anchor, map(slug, headings))

    def test_sources_name_pages_that_there_are(self):
        for name in tracked():
            if name.startswith(("tests/tidy/", "tests/check/")) or name == "CHANGELOG.md":
                continue
            text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
            for path in re.findall(r"(?<![\w/.-])docs/[\w/.-]+\.md\b", text):
                with self.subTest(f"{name}: {path}"):
                    self.assertTrue((ROOT / path).is_file())

    def test_the_index_has_every_page(self):
        listed = {file for page in ("docs/README.md", "docs/how-to/runbooks/README.md") for _, file, _ in links(page)}
        self.assertLessEqual({ROOT / name for name in tracked("docs/*.md")} - {ROOT / "docs/README.md"}, listed)

    def test_a_page_begins_with_whom_it_is_for(self):
        for name in tracked("docs/*.md"):
            if re.match(r"docs/(how-to/runbooks/[^R]|reasons/\d)", name):  # The pages of one alert or of one decision.
                continue
            with self.subTest(name):
                self.assertRegex(text_of(name).split("\n\n")[1], r"^For [a-z]")

    def test_docs_are_short(self):
        self.assertLessEqual(sum(len(text_of(name).split()) for name in tracked("docs/*.md")), DOCS_WORDS_MAX)
        self.assertLessEqual(text_of("README.md").count("\n"), README_LINES_MAX)
        for name in tracked("README.md", "docs/*.md"):
            with self.subTest(name):
                self.assertEqual([line for line in text_of(name).splitlines() if len(line) > DOCS_COLUMNS_MAX], [])

    def test_integration_tests_are_registered(self):
        lists = text_of("tests/integration/CMakeLists.txt")
        for name in tracked("tests/integration/test_*.py"):
            file = pathlib.Path(name).stem
            for class_, body in re.findall(r"(?ms)^class (\w+)(.*?)(?=^class |\Z)", text_of(name)):
                listed = " ".join(re.findall(rf"longwave_integration_tests\({file} {class_}\s+([^)]*)\)", lists)).split()
                for method in re.findall(r"(?m)^    def test_(\w+)", body):
                    with self.subTest(f"{file}.{class_}.{method}"):
                        self.assertIn(method, listed)

    def test_pip_compiles_with_the_flags_of_make_programs(self):
        # With others ccache has none of its objects.
        dev = next(preset for preset in json.loads(text_of("CMakePresets.json"))["configurePresets"] if preset["name"] == "dev")
        build = tomllib.loads(text_of("python/pyproject.toml"))["tool"]["scikit-build"]["cmake"]
        define = {key: value.get("default") if isinstance(value, dict) else value for key, value in build["define"].items()}
        define["CMAKE_BUILD_TYPE"] = build["build-type"]
        self.assertLessEqual(dev["cacheVariables"].items(), define.items())

    def test_names_of_tests_are_claims(self):
        for name in tracked("tests/*_test.cc"):
            for suite, test in re.findall(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", text_of(name),
                                          re.MULTILINE):
                with self.subTest(f"{name}: {suite}.{test}"):
                    self.assertRegex(suite, r"^[A-Z][A-Za-z0-9]+$")
                    self.assertRegex(test, r"^(DISABLED_)?[A-Z][A-Za-z0-9]+$")


if __name__ == "__main__":
    unittest.main()
