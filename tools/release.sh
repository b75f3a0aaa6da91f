#!/usr/bin/env bash
# Makes everything that would be published, into build/dist: the archive of a worker, the images (where there is buildah), the
# charts, the Python wheel, the sources, a bill of materials of each that carries libraries, and SHA256SUMS.
#
#   tools/release.sh [--parts PART,…] [TAG]
#
# TAG is vVERSION, of the version that its sources have; without one it is a dry run of HEAD. What is not committed has no part
# in it. PARTS: archive, wheel, charts, source, images [all]. The same commit gives the same bytes on a machine with the same
# packages.
#
# LONGWAVE_SIGNING_KEY is a key of gpg's, for the provenance of the charts; without one they have none.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "release: $1" >&2; exit 1; }
parts=archive,wheel,charts,source,images
if [ "${1:-}" = --parts ]; then parts=$2; shift 2; fi
for part in ${parts//,/ }; do
  [[ ,archive,wheel,charts,source,images, == *,$part,* ]] || fail "got part $part, wanted archive, wheel, charts, source or images"
done
makes() { [[ ,$parts, == *,$1,* ]]; }

commit=$(git rev-parse --verify --quiet "${1:-HEAD}^{commit}") || fail "got ${1:-HEAD}, wanted a tag"
version=$(git show "$commit:CMakeLists.txt" | sed -n 's/^project(longwave VERSION \([0-9.]*\).*/\1/p')
[ -z "${1:-}" ] || [ "$1" = "v$version" ] || fail "got the tag $1 of sources that have the version $version, wanted v$version"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH
home=$PWD out=$PWD/build/dist tree=$PWD/build/dist-tree/longwave-$version

builds() { makes archive || makes images; }
if builds; then tools/setup.sh --torch --cuda; fi
# A checkout of its own, with what this one has brought from elsewhere.
rm -rf "$out" build/dist-tree
mkdir -p "$out" "$tree"
git archive "$commit" | tar -xC "$tree"
for brought in .torch .cuda .tools; do
  [ ! -d "$brought" ] || ln -s "$home/$brought" "$tree/$brought"
done
cd "$tree"

# pack FOLDER NAME ARCHIVE: the folder's entry NAME, as the same bytes whenever and by whomever it is made.
pack() {
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --format=posix \
    --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime -C "$1" -c "$2" >"$3"
}

if builds; then
  tools/setup.sh --torch --cuda
  cmake --preset release-torch -DLONGWAVE_TESTS=OFF -DLONGWAVE_CUDA="${LONGWAVE_CUDA:-ON}"
  cmake --build --preset release-torch --target longwave longwave-server longwave-worker
fi
programs=$tree/build/release-torch/bin
if makes wheel; then
  # As the preset release-torch: what is compiled shows no path of a checkout, with ccache or without.
  LONGWAVE_WERROR=OFF SKBUILD_CMAKE_BUILD_TYPE=Release tools/wheel.sh "$tree/build/wheel" \
    "-DCMAKE_CXX_FLAGS=-ffile-prefix-map=$tree/= -ffile-prefix-map=../= -fno-canonical-system-headers"
  cp build/wheel/longwave-*.whl build/wheel/*.spdx.json "$out/"
fi
if makes archive; then
  wheel=
  if makes wheel; then wheel=$(ls build/wheel/longwave-*.whl); fi
  tools/archive.sh "$programs" "$out" "$wheel"
  name=longwave-worker-$version-$(uname -m)
  tar -xOzf "$out/$name.tar.gz" "$name/share/sbom.spdx.json" >"$out/$name.spdx.json"
fi
if makes charts; then
  tools/helm.sh
  for chart in longwave longwave-monitoring; do
    package=$chart-$version.tgz
    .tools/bin/helm package "helm/$chart" --destination build/charts >/dev/null
    # Helm writes the time into it.
    tar --extract --touch --gzip --file "build/charts/$package" --directory build/charts
    pack build/charts "$chart" build/charts/tar
    gzip -n <build/charts/tar >"$out/$package"
    if [ -n "${LONGWAVE_SIGNING_KEY:-}" ]; then
      { .tools/bin/helm show chart "$out/$package" && printf '\n...\nfiles:\n  %s: sha256:%s\n' "$package" "$(sha256sum <"$out/$package" | cut -d' ' -f1)"; } |
        gpg --batch --yes --clearsign --digest-algo SHA512 --local-user "$LONGWAVE_SIGNING_KEY" --output "$out/$package.prov"
    fi
  done
  [ -n "${LONGWAVE_SIGNING_KEY:-}" ] || echo 'release: the charts have no provenance: LONGWAVE_SIGNING_KEY is not set'
fi
if makes source; then
  git -C "$home" archive --format=tar --prefix="longwave-$version/" "$commit" | gzip -n >"$out/longwave-$version.tar.gz"
fi
if makes images && ! command -v buildah >/dev/null; then
  echo 'release: no images: there is no buildah'
elif makes images; then
  mkdir -p build/images
  BILLS=$PWD/build/images helm/images/build.sh --programs "$programs" --tag "$version"
  for part in server worker; do
    image=longwave-$part-image-$version-$(uname -m)
    mv "build/images/longwave-$part.spdx.json" "$out/$image.spdx.json"
    buildah --storage-driver "${STORAGE_DRIVER:-vfs}" push -q "localhost/longwave-$part:$version" "oci:build/images/$image:$version"
    pack build/images "$image" "$out/$image.tar"
  done
fi

cd "$out"
sha256sum -- * >SHA256SUMS
echo "release: $version of ${commit::12} in ${out#"$home/"}:"
du -h -- * | awk '{ print "  " $2 "  " $1 }'
