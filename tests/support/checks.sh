# For test scripts: claims, one line each, and their result. Wants $work, a folder of the script's own.
# shellcheck shell=bash
passed=0 failed=0

skip() { echo "skipped: $1"; exit 77; }

# check CLAIM COMMAND…: the claim holds if the command succeeds.
check() {
  local claim=$1
  shift
  # shellcheck disable=SC2154
  if "$@" >"$work/output" 2>&1; then
    passed=$((passed + 1)) && echo "ok    $claim"
  else
    failed=$((failed + 1)) && echo "FAIL  $claim" && sed 's/^/      /' "$work/output"
  fi
}

# The closing line; exits nonzero if a claim failed.
sum_up() {
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
}
