"""Every key of the configuration at values that people and programs get wrong: a meaning, or one sentence."""

import concurrent.futures
import json
import re
import subprocess
import unittest

from harness import BIN, IntegrationTest

# By command line, and how a file has them.
VALUES = {
    "0": "0", "-1": "-1", "1e30": "1e30", "nan": ".nan", "18446744073709551616": "18446744073709551616", "": '""',
    "x" * 10_000: "x" * 10_000, "true": "true", "a word": "a word", "[1, 2]": "[1, 2]", "{a: 1}": "{a: 1}",
    "\u00e9\u4e16": "\u00e9\u4e16",
}


class EveryKey(IntegrationTest):
    def keys(self):
        done = subprocess.run([BIN / "longwave", "config", "schema"], capture_output=True, text=True, check=True)
        definitions = json.loads(done.stdout)["definitions"]
        return {name: schema for name, schema in definitions.items() if "default" in schema}

    def look(self, key, value, written):
        """Complaints of `config check`, on the command line and in a file, that are not one sentence."""
        file = self.root / f"{key}-{abs(hash(value))}.yaml"
        file.write_text(f"data: {{path: {self.text}}}\n{key}: {written}\n" if key != "data.path" else
                        f"{key}: {written}\n", encoding="utf-8")
        wrong = []
        for given, command in ((value, [self.config, "--set", f"{key}={value}"]), (written.strip('"'), [file])):
            try:
                done = subprocess.run([BIN / "longwave", "config", "check", *map(str, command)], capture_output=True,
                                      text=True, timeout=60, check=False)
            except subprocess.TimeoutExpired:
                wrong.append(f"{key}={value[:40]}: nothing for a minute")
                continue
            sentence = done.stderr
            good = done.returncode == 0 and sentence == "" or (
                done.returncode == 1 and sentence.startswith("longwave config check: ") and
                sentence.count("\n") == 1 and len(sentence) < 1000)
            if done.returncode == 0:
                good = good and self.means_something(command, key, given)
            if not good:
                wrong.append(f"{key}={value[:40]}: status {done.returncode}: {sentence[:2000]}")
        return wrong

    @staticmethod
    def means_something(command, key, value):
        """An accepted value is what `config print` shows, as the number, word or text that it is."""
        done = subprocess.run([BIN / "longwave", "config", "print", *map(str, command)], capture_output=True, text=True,
                              timeout=60, check=False)
        section, name = key.split(".", 1)
        block = re.search(rf"(?ms)^{section}:\n(.*?)(?=^\S|\Z)", done.stdout).group(1)
        shown = re.findall(rf'(?:^|\s|\{{){name.split(".")[-1]}: ("[^"]*"|[^,}}\s]+)', block)
        if key.count(".") == 1:  # a key of sync.up has its namesake in sync.down
            shown = shown[:1]
        texts = [text.strip('"') for text in shown]
        try:
            return any(text == value or float(text) == float(value) for text in texts)
        except ValueError:
            return value.lower() in [text.lower() for text in texts]

    def test_has_a_meaning_or_is_refused_in_one_sentence(self):
        self.config = self.write_config()
        keys = self.keys()
        self.assertGreater(len(keys), 60)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(self.look, key, value, written)
                     for key in keys for value, written in VALUES.items()]
            wrong = [line for each in asked for line in each.result()]
        self.assertEqual(wrong, [], "\n".join(wrong))


if __name__ == "__main__":
    unittest.main()
