"""The commands of a page of the documentation, as they stand there."""

import re


def blocks(page, section=None):
    """The indented blocks of a page, or of one section of it, in order."""
    text = page.read_text(encoding="utf-8")
    if section is not None:
        text = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL).group(1)
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE).strip("\n") for block in found]
