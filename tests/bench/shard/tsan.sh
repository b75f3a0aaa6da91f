#!/usr/bin/env bash
# A real shard, built with the thread sanitizer, under the bench with 64 workers: no report may come.
#   tsan.sh BIN     BIN: the folder of a bench_shard and a longwave-server built with the preset tsan
#   tsan.sh BIN BENCH    the same with another build's bench_shard as the generator (faster)
# tsan.supp in this folder has the suppressions, with reasons.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$1
bench=${2:-$bin/bench_shard}
grep -q __tsan_init "$bin/longwave-server" || {
  echo "error: tsan.sh: $bin/longwave-server is built without the thread sanitizer" >&2
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A report does not end the process: all of them are to be seen.
export TSAN_OPTIONS="suppressions=$here/tsan.supp log_path=$work/report halt_on_error=0 exitcode=66"
status=0
"$bench" --server "$bin/longwave-server" --log-dir "$work" --sweep 64 \
  --params 1500000 --rounds 8 --no-pin --state --set cluster.shard_threads=2 --set sync.clip=4 || status=$?

reports=0
for report in "$work"/report*; do
  [ -e "$report" ] || continue
  cat "$report"
  reports=$((reports + $(grep -c '^WARNING: ThreadSanitizer' "$report" || true)))
done
if [ "$status" != 0 ] || [ "$reports" != 0 ]; then
  echo "error: tsan.sh: the bench ended with status $status, ThreadSanitizer reported $reports times" >&2
  cat "$work"/64/*.log >&2
  exit 1
fi
echo 'no report of the thread sanitizer'
