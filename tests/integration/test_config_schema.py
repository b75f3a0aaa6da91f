"""`longwave config schema` against the configurations in the tree and bad ones, and the chart's schema against it."""

import json
import pathlib
import re
import subprocess
import unittest

from harness import BIN, longwave

try:
    import jsonschema
    import yaml
except ImportError as missing:
    jsonschema, WHY = None, f"{missing.name} is not installed"
else:
    WHY = ""

    class Loader(yaml.SafeLoader):
        """Scalars as YAML 1.2 and editors have them: `off` is a word, 3e-4 a number."""

    Loader.yaml_implicit_resolvers = {}
    for tag, form, first in (("bool", r"true|false", "tf"), ("int", r"[-+]?\d+", "-+0123456789"),
                             ("float", r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?", "-+.0123456789")):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{form})$"), list(first))

ROOT = pathlib.Path(__file__).parents[2]


@unittest.skipIf(jsonschema is None, WHY)
class ConfigSchema(unittest.TestCase):
    def setUp(self):
        self.schema = json.loads(longwave("config", "schema").stdout)
        jsonschema.Draft7Validator.check_schema(self.schema)
        self.validator = jsonschema.Draft7Validator(self.schema)

    def errors(self, text):
        return [error.message for error in self.validator.iter_errors(yaml.load(text, Loader))]

    def test_it_takes_every_configuration_of_the_tree(self):
        files = sorted((ROOT / "configs").glob("*.yaml")) + sorted((ROOT / "configs/presets").glob("*.yaml"))
        self.assertGreater(len(files), 8)
        for file in files:
            with self.subTest(file.name):
                self.assertEqual(self.errors(file.read_text(encoding="utf-8")), [])
                self.assertEqual(self.errors(longwave("config", "print", file).stdout), [])

    def test_it_has_the_keys_of_the_table_with_their_defaults(self):
        reference = (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8")
        documented = set(re.findall(r"^- `([a-z_0-9.]+\.[a-z_0-9.]+)`: `", reference, re.MULTILINE))
        keys = {name for name, schema in self.schema["definitions"].items() if "default" in schema}
        self.assertEqual(keys, documented)
        for name in keys:
            definition = self.schema["definitions"][name]
            self.assertTrue(jsonschema.Draft7Validator(definition).is_valid(definition["default"]), name)

    def test_names_may_have_dots(self):
        for text in ("sync.up.k: 64", "sync: {up.k: 64}", "sync.up: {k: 64}", "sync: {up: {k: 64}}"):
            self.assertEqual(self.errors(text), [], text)

    def test_it_refuses_what_the_parser_refuses(self):
        for text in ("run: {stepz: 5}", "sync: {up: {q: 1}}", "runs: {}", "run: {steps: 0}", "run: {steps: many}",
                     "run: {steps: 1.5}", "train: {learning_rate: -1}", "run: 5", "run: [1]", "run.preset: nothing",
                     "security: {mode: perhaps}", "run: {workers: 10001}"):
            self.assertNotEqual(self.errors(text), [], text)
            longwave("config", "print", "/dev/stdin", text=text, wanted=1)


class Chart(unittest.TestCase):
    def test_has_the_same_schema_of_its_config(self):
        subprocess.run([ROOT / "tests/helm/config_schema.py", BIN / "longwave"], check=True)

    @unittest.skipIf(jsonschema is None, WHY)
    def test_takes_values_as_helm_reads_them(self):
        schema = json.loads((ROOT / "helm/longwave/values.schema.json").read_text(encoding="utf-8"))
        config = jsonschema.Draft7Validator(schema["definitions"]["configuration"])
        for good in ({"learning_rate": 0.01}, {"learning_rate": "0.01"}, {"learning_rate": "1e-3"}, {"batch": "4"}):
            self.assertEqual(list(config.iter_errors({"train": good})), [], good)
        for bad in ({"lr": 0.01}, {"learning_rate": "fast"}, {"learning_rate": -1}, {"batch": 1.5}, {"batch": "many"},
                    {"optimizer": "adam"}):
            self.assertNotEqual(list(config.iter_errors({"train": bad})), [], bad)


if __name__ == "__main__":
    unittest.main()
