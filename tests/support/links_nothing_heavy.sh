#!/usr/bin/env bash
# Fails, naming the program, if one of the given programs links gRPC, ZeroMQ or LibTorch.
set -euo pipefail
heavy='lib(grpc|zmq|torch|c10)'
failed=0
for program; do
  if links=$(ldd "$program" | grep -Eo "${heavy}[^ ]*"); then
    echo "${program##*/}: got $(tr '\n' ' ' <<<"$links"), wanted none of gRPC, ZeroMQ and LibTorch"
    failed=1
  fi
done
exit "$failed"
