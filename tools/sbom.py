#!/usr/bin/env python3
"""Says what a release carries of others: writes its bill of materials, as SPDX, and brings their licenses along.

    tools/sbom.py NAME VERSION TAKEN PACKED SHARE [ALLOWED]

TAKEN has a line for each library: its name, a tab, and the file that it was copied from. A line that is "compiled in" stands for
the packages of ALLOWED, whose headers our programs are made of. PACKED is the folder with what was packed. Writes SHARE/sbom.spdx.json and SHARE/licenses/PACKAGE/. Refuses,
by name, all that ALLOWED [tools/libraries.txt] does not have, what is under the GPL, and what no package has. The same
input gives the same bytes; the time is SOURCE_DATE_EPOCH.
"""

import datetime
import email
import fnmatch
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

COMMON = pathlib.Path("/usr/share/common-licenses")


class Package:
    def __init__(self, kind, name, version, texts):
        self.name, self.version, self.texts, self.licenses, self.files = name, version, texts, set(), []
        self.url = f"pkg:{kind}/{name}@{version}"


def allowed_licenses(path):
    lines = [line.split(None, 1) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(line[0], line[1].strip()) for line in lines if len(line) == 2 and line[0] != "#"]


def is_gpl(license_name):
    """Of the GPL itself: not the LGPL, and not with GCC's exception, which lets any program use the library."""
    parts = re.split(r"\s+(?:AND|OR)\s+|[()]", license_name)
    return any(re.match(r"A?GPL-", part) and "WITH GCC-exception" not in part for part in parts)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def debian_package(name):
    """Of the distribution; with the texts that its copyright file only names by their path."""
    name, version, system = run("dpkg-query", "-W", "-f=${Package} ${Version} ", name).split()[:2] + [
        re.search(r"^ID=(\w+)", pathlib.Path("/etc/os-release").read_text(encoding="utf-8"), re.M)[1]]
    copyright_file = pathlib.Path("/usr/share/doc", name, "copyright")
    common = re.findall(rf"{COMMON}/[\w.-]*\w", copyright_file.read_text(encoding="utf-8"))
    return Package(f"deb/{system}", name, version, [copyright_file, *map(pathlib.Path, sorted(set(common)))])


def package_of(path):
    """The package that a file is of: PyPI's, unpacked beside it, or the distribution's; None: nobody's."""
    if not os.path.isfile(path):
        return None
    real = pathlib.Path(os.path.realpath(path))
    for folder in real.parents:
        for record in sorted(folder.glob("*.dist-info/RECORD")):
            if f"\n{real.relative_to(folder)}," in "\n" + record.read_text(encoding="utf-8"):
                about = email.message_from_string((record.parent / "METADATA").read_text(encoding="utf-8"))
                texts = [text for text in (record.parent / "licenses").rglob("*") if text.is_file()]
                return Package("pypi", about["Name"], about["Version"], sorted(texts))
    # Where /lib is /usr/lib, a package may have a file under either name.
    for name in (str(real), path, f"/usr{path}", str(real).removeprefix("/usr")):
        owner = run("dpkg-query", "-S", name)
        if owner and not owner.startswith("diversion"):
            return debian_package(owner.split(": ")[0].split(",")[0])
    return None


def collect(taken, allowed):
    """The packages by their URL, and what is to be said against them."""
    packages, faults = {}, []
    lines = set(taken.read_text(encoding="utf-8").splitlines())
    compiled_in = "compiled in" in lines
    found = [line.split("\t") for line in sorted(lines - {"compiled in"})]
    found += [[name, None] for name, _ in allowed if compiled_in and ".so" not in name]
    for library, path in found:
        plain = re.sub(r"-[0-9a-f]{8}(?=\.)", "", library)  # auditwheel adds a sum
        license_name = next((name for pattern, name in allowed if fnmatch.fnmatchcase(plain, pattern)), None)
        package = debian_package(library) if path is None else package_of(path)
        if license_name is None:
            faults.append(f"{library} ({path}) is not on the list")
        elif is_gpl(license_name):
            faults.append(f"{library} ({path}) is under {license_name}")
        elif package is None:
            faults.append(f"{library} ({path}) is no package's, so that nobody can say which version it is")
        else:
            package = packages.setdefault(package.url, package)
            package.licenses.add(license_name)
            package.files += [] if path is None else [library]
    return [packages[url] for url in sorted(packages)], faults


def document(name, version, packages, packed):
    time = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)

    def described(identity, name, version, license_name, **more):
        return {"SPDXID": identity, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
                "filesAnalyzed": False, "licenseConcluded": license_name, "licenseDeclared": license_name,
                "copyrightText": "NOASSERTION", **more}

    entries = [described("SPDXRef-Release", name, version, "Apache-2.0")]
    files, relations = [], [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Release")]
    for package in packages:
        identity = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", package.name)
        entries.append(described(
            identity, package.name, package.version, " AND ".join(sorted(package.licenses)),
            externalRefs=[{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": package.url}]))
        relations.append(("SPDXRef-Release", "CONTAINS" if package.files else "DEPENDS_ON", identity))
        for file in package.files:
            part = "SPDXRef-File-" + re.sub(r"[^A-Za-z0-9.-]", "-", file)
            place = next(packed.rglob(file))
            content = place.read_bytes()
            files.append({"SPDXID": part, "fileName": f"./{place.relative_to(packed)}", "licenseConcluded": "NOASSERTION",
                          "copyrightText": "NOASSERTION", "checksums": [
                              {"algorithm": kind, "checksumValue": hashlib.new(kind, content).hexdigest()}
                              for kind in ("SHA1", "SHA256")]})
            relations.append((part, "GENERATED_FROM", identity))
    own = sorted({part for package in packages for part in package.licenses if part.startswith("LicenseRef-")})
    whole = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: longwave-sbom"]},
        "packages": entries, "files": files,
        "hasExtractedLicensingInfos": [
            {"licenseId": one, "extractedText": "The files under licenses/ of the packages that name it."} for one in own],
        "relationships": [dict(zip(("spdxElementId", "relationshipType", "relatedSpdxElement"), relation))
                          for relation in relations]}
    digest = hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()
    return {**whole, "documentNamespace": f"urn:longwave:sbom:{name}:{digest}"}


def main(name, version, taken, packed, share, allowed="tools/libraries.txt"):
    packages, faults = collect(pathlib.Path(taken), allowed_licenses(pathlib.Path(allowed)))
    if faults:
        sys.exit("\n".join(f"sbom: {name}: {fault}; wanted one that {allowed} allows" for fault in faults))
    share = pathlib.Path(share)
    common = share / "licenses" / "common"
    common.mkdir(parents=True, exist_ok=True)
    for package in packages:
        folder = share / "licenses" / package.name
        folder.mkdir(exist_ok=True)
        for text in package.texts:
            shutil.copyfile(text, (folder if text.parent != COMMON else common) / text.name)
    bill = json.dumps(document(name, version, packages, pathlib.Path(packed)), indent=1, sort_keys=True)
    (share / "sbom.spdx.json").write_text(bill + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) not in (6, 7):
        sys.exit(__doc__)
    main(*sys.argv[1:])
