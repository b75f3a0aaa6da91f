#!/usr/bin/env python3
"""The schema of the chart's `config`: that of `longwave config schema`, which takes what Helm makes of values.

    config_schema.py [--write] LONGWAVE

Fails where helm/longwave/values.schema.json has another one, or writes it there.
"""

import json
import pathlib
import re
import subprocess
import sys

FILE = pathlib.Path(__file__).parents[2] / "helm/longwave/values.schema.json"


def lenient(key):
    """Helm's --set makes text of a number with a point and of what --set-string is given, and a number of a name like 5; null
    unsets what other values set."""
    kind = key.get("type")
    if "enum" in key:
        return {**key, "enum": [*key["enum"], None]}
    if "pattern" in key:  # a number or a word
        return {**key, "type": [*kind, "null"], "pattern": key["pattern"].replace("^", "^([-+.0-9eE]+|").replace("$", ")$")}
    if kind == "string":
        return {**key, "type": ["string", "number", "boolean", "null"]}
    return {**key, "type": [kind, "string", "null"],
            "pattern": "^(true|false)$" if kind == "boolean" else "^[-+.0-9eE]+$"}


def resolved(schema, definitions):
    """Without references: Helm resolves none to other files, and the chart has definitions of its own."""
    name = schema.get("$ref", "").removeprefix("#/definitions/")
    schema = definitions[name] if name else schema
    if "properties" not in schema:
        return lenient(schema)
    return {**schema, "properties": {key: resolved(value, definitions) for key, value in schema["properties"].items()}}


def text(program):
    """The last of the file's definitions, with a line for each key."""
    whole = json.loads(subprocess.run([program, "config", "schema"], capture_output=True, check=True).stdout)
    # The programs know their presets: a new one changes no file of the chart.
    whole["definitions"]["run.preset"]["type"] = "string"
    del whole["definitions"]["run.preset"]["enum"]
    sections = []
    for name in (name for name in whole["properties"] if "." not in name):
        section = resolved(whole["properties"][name], whole["definitions"])
        keys = ",\n".join(f"          {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
                          for key, value in section.pop("properties").items())
        sections.append(f'        "{name}": {json.dumps(section)[:-1]}, "properties": {{\n{keys}\n        }}}}')
    return ('    "configuration": {\n      "type": "object",\n      "additionalProperties": false,\n      "properties": {\n' +
            ",\n".join(sections) + "\n      }\n    }\n  }\n}\n")


def main(program, *, write):
    has = FILE.read_text(encoding="utf-8")
    wanted = re.sub(r'    "configuration": \{.*\Z', lambda _: text(program), has, flags=re.DOTALL)
    if write:
        FILE.write_text(wanted, encoding="utf-8")
    elif has != wanted:
        sys.exit(f"{FILE} has another schema of config than {program}: {__file__} --write {program}")


if __name__ == "__main__":
    main(sys.argv[-1], write=sys.argv[1] == "--write")
