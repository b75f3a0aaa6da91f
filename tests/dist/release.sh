#!/usr/bin/env bash
# Holds what tools/release.sh makes without compiling, the charts and the sources, in a clone of HEAD: twice the same bytes, the
# provenance that Helm verifies, and what it refuses.
#
# Ends with `N passed, N failed`; status 77 and a reason where it cannot be tried.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/support/checks.sh
git rev-parse --verify --quiet HEAD >/dev/null || skip 'this is no checkout of git'
tools/helm.sh --there >/dev/null || skip 'the chart tools are not in .tools/; tools/helm.sh brings them'
command -v gpg >/dev/null || skip 'gpg is not installed'

work=$(mktemp -d)
export GNUPGHOME=$work/gpg
trap 'gpgconf --kill gpg-agent; rm -rf "$work"' EXIT
mkdir -m 700 "$GNUPGHOME"
git clone --quiet --no-hardlinks . "$work/clone"
ln -s "$(realpath .tools)" "$work/clone/.tools"
cd "$work/clone"
version=$(sed -n 's/^project(longwave VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

release() { env -u LONGWAVE_SIGNING_KEY tools/release.sh --parts charts,source "$@"; }
refuses() { # WANTED ARGUMENT…
  local said status=0 wanted=$1
  shift
  said=$(tools/release.sh "$@" 2>&1) || status=$?
  echo "$said"
  [ $status != 0 ] && grep -qF "$wanted" <<<"$said"
}
says_that_nothing_is_signed() { release >"$work/said" && cat "$work/said" && grep -q 'no provenance' "$work/said"; }
check 'charts and sources are made, and it says that nothing is signed' says_that_nothing_is_signed
same_again() { mv build/dist "$work/first"; sleep 1; release && diff -r "$work/first" build/dist; }
check 'the same commit gives the same bytes' same_again
tagged_as_head() { git tag "v$version" && release "v$version" && diff -r "$work/first" build/dist; }
check 'a tag gives what its commit does' tagged_as_head
sums_hold() { (cd build/dist && sha256sum --check --strict SHA256SUMS); }
check 'SHA256SUMS holds' sums_hold
sources_are_the_commit() { mkdir "$work/sources" "$work/commit" && tar -xzf "build/dist/longwave-$version.tar.gz" -C "$work/sources" && git archive HEAD | tar -xC "$work/commit" && diff -r --no-dereference "$work/commit" "$work/sources/longwave-$version"; }
check 'the sources are those of the commit' sources_are_the_commit
same_chart() { local chart; for chart in longwave longwave-monitoring; do diff <(.tools/bin/helm template x "helm/$chart" --kube-version 1.33) <(.tools/bin/helm template x "build/dist/$chart-$version.tgz" --kube-version 1.33) || return 1; done; }
check 'the packaged charts make what the folders do' same_chart

gpg --batch --quiet --passphrase '' --quick-gen-key 'release test <release@example.org>' rsa3072 sign never 2>/dev/null
gpg --export >"$work/keyring.gpg"
signs() {
  local chart
  LONGWAVE_SIGNING_KEY='release test' tools/release.sh --parts charts || return 1
  for chart in longwave longwave-monitoring; do .tools/bin/helm verify --keyring "$work/keyring.gpg" "build/dist/$chart-$version.tgz" || return 1; done
}
verifies_no_other() { echo more >>"build/dist/longwave-$version.tgz"; ! .tools/bin/helm verify --keyring "$work/keyring.gpg" "build/dist/longwave-$version.tgz"; }
check 'Helm verifies the provenance' signs
check 'but not of other bytes' verifies_no_other

git tag v99.0.0
check 'a tag of another version is refused' refuses "wanted v$version" v99.0.0
check 'a tag that is not there is refused' refuses 'got v98.0.0, wanted a tag' v98.0.0
check 'an unknown part is refused' refuses 'got part rpm, wanted' --parts rpm
sum_up
