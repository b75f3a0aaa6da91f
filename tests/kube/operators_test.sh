#!/usr/bin/env bash
# The operators of tests/kube/run.sh, with stand-ins for Go and the cluster. The script fails if sources are available
# and do not build. If the module proxy does not answer, it says so and goes on.
# Ends with `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/../.."

. tests/support/checks.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/programs"
stand_in() { printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod +x "$1"; }
for program in longwave longwave-server longwave-worker; do stand_in "$work/programs/$program" 'exit 0'; done
for tool in helm kubectl; do stand_in "$work/bin/$tool" 'exit 0'; done
stand_in "$work/bin/buildah" 'exit 1'
stand_in "$work/load" 'exit 0'
# shellcheck disable=SC2016
go_that() {
  case $1 in
    'builds nothing') stand_in "$work/bin/go" '[ "$1" = list ]' ;;
    'reaches nobody') stand_in "$work/bin/go" 'echo "go: no such host" >&2; exit 1' ;;
  esac
}

# operators STATUS [WORDS]: the expected exit status and words of operators.sh.
operators() {
  local status=0
  PATH=$work/bin:$PATH tests/kube/operators.sh "$work/built" >"$work/said" 2>&1 || status=$?
  cat "$work/said"
  [ "$status" = "$1" ] && { [ -z "${2:-}" ] || grep -q "$2" "$work/said"; }
}
# run [LONGWAVE_OPERATORS=1]: the output of run.sh, which never succeeds since its images cannot be built.
run() {
  ! env -u LONGWAVE_OPERATORS "$@" PATH="$work/bin:$PATH" XDG_CACHE_HOME="$work/cache" KUBECONFIG="$work/kubeconfig" \
    LONGWAVE_LOAD="$work/load" TMPDIR="$work" tests/kube/run.sh "$work/programs" >"$work/said" 2>&1
}
fails_at_once() { run "$@" && cat "$work/said" && grep -q 'could not be built' "$work/said" && ! grep -q 'building the images' "$work/said"; }
goes_on() { run "$@" && cat "$work/said" && grep -q 'going on without them' "$work/said" && grep -q 'building the images' "$work/said"; }
does_not_try() { run && cat "$work/said" && ! grep -q operator "$work/said" && grep -q 'building the images' "$work/said"; }
says_why() { grep -q 'skipped: the operators: .*no such host' "$work/said"; }

go_that 'builds nothing'
check 'operators that cannot be built are a failure' operators 1 'the operators could not be built'
check 'so is a test that was asked for them' fails_at_once LONGWAVE_OPERATORS=1
check 'one that was not does not try' does_not_try
go_that 'reaches nobody'
check 'sources that cannot be had are a reason to skip' operators 77 'skipped: the operators: the module proxy does not answer: go: no such host'
check 'then a test that was asked for them goes on' goes_on LONGWAVE_OPERATORS=1
check 'and says why' says_why
# Half of them, built by an earlier call.
mkdir -p "$work/cache/longwave-operators"
stand_in "$work/cache/longwave-operators/cert-manager" 'exit 0'
go_that 'builds nothing'
check 'a test that was not asked for what was built tries, and goes on' goes_on
check 'one that was asked fails' fails_at_once LONGWAVE_OPERATORS=1
mkdir -p "$work/built"
for program in operator prometheus-config-reloader prometheus cert-manager; do stand_in "$work/built/$program" 'exit 0'; done
go_that 'reaches nobody'
check 'what is there needs nobody' operators 0

sum_up
