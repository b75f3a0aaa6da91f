#!/usr/bin/env bash
# The Helm release on a real Kubernetes: installs it with 2 shards and 3 workers, trains to the end, and meanwhile
# kills a worker's pod, a shard's and the coordinator's, upgrades the release, rolls it back and scales the workers; a second run
# of the same name in another namespace and one release of the monitoring chart for both are there, too (scenario.py has it all).
#
#   tests/kube/run.sh [build/bin] [options of scenario.py]
#
# The cluster: the one of KUBECONFIG, if that is set; else one of kind, if it is installed; else the one node of
# ../shared/kube, built on the first call (a quarter of an hour). With KUBECONFIG, either LONGWAVE_LOAD is a command
# that brings an image of buildah's store to the cluster (it is called with the image's name), or the images are
# there already under LONGWAVE_IMAGES (a prefix) and LONGWAVE_TAG.
#
# LONGWAVE_DIST is the folder of a release (tools/release.sh), whose images and charts are taken then.
#
# LONGWAVE_KEEP=1 leaves the cluster when it is over. LONGWAVE_OPERATORS=1 also runs the Prometheus operator, and
# cert-manager as who issues the certificates; they are built from their Go modules at the first call. If that fails, the
# test does; only where the module proxy does not answer, or nothing brings images to the cluster, it goes on without
# them and says so.
#
# Ends with `N passed, N failed`; status 77 and a reason if no cluster is available.
set -euo pipefail
cd "$(dirname "$0")/../.."
programs=build/bin
if (($#)) && [ -d "$1" ]; then programs=$1; shift; fi
one_node=$PWD/../shared/kube

skip() { echo "skipped: $1"; exit 77; }
note() { printf '== %s (%ds)\n' "$1" "$SECONDS"; }
for program in longwave longwave-server longwave-worker; do
  [ -x "$programs/$program" ] || skip "$programs has no $program"
done

work=$(mktemp -d "${TMPDIR:-/tmp}/longwave-kube-XXXX")
tag=kube-test-$$
down=()
clean_up() {
  local status=$?
  if [ -n "${LONGWAVE_KEEP:-}" ]; then
    echo "kept: $work, KUBECONFIG=${KUBECONFIG:-none}"
  else
    if ((${#down[@]})); then "${down[@]}" >/dev/null 2>&1 || true; fi
    for part in server worker; do
      buildah --storage-driver vfs rmi "localhost/longwave-$part:$tag" >/dev/null 2>&1 || true
    done
    rm -rf "$work"
  fi
  exit "$status"
}
trap clean_up EXIT

if [ -n "${KUBECONFIG:-}" ]; then
  load=${LONGWAVE_LOAD:-}
elif command -v kind >/dev/null && { command -v docker || command -v podman; } >/dev/null; then
  note 'a cluster of kind'
  export KUBECONFIG=$work/kubeconfig
  down=(kind delete cluster --name "longwave-$$")
  kind create cluster --name "longwave-$$" --wait 120s >"$work/kind.log" 2>&1 ||
    { tail -5 "$work/kind.log" >&2; exit 1; }
  load=$work/load
  cat >"$load" <<LOAD
#!/bin/sh
set -e
buildah --storage-driver vfs push -q "\$1" "docker-archive:$work/image.tar:\$1"
kind load image-archive --name "longwave-$$" "$work/image.tar"
rm "$work/image.tar"
LOAD
  chmod +x "$load"
elif [ -x "$one_node/up.sh" ]; then
  [ "$(id -u)" = 0 ] || skip 'the one-node Kubernetes needs root'
  command -v go >/dev/null || skip 'the one-node Kubernetes is built with Go, which is not installed'
  export KUBE_BIN=${KUBE_BIN:-$HOME/.cache/kube-from-source/bin} KUBE_RUN=$work/node
  # build.sh brings them only where none of them is there, and our setup has brought some.
  tools/setup.sh --kube >"$work/setup.log" 2>&1 || { tail -3 "$work/setup.log" >&2; exit 1; }
  built=yes
  for tool in "$KUBE_BIN/kubelet" "$KUBE_BIN/helm" buildah containerd runc etcd; do
    command -v "$tool" >/dev/null || built=
  done
  if [ -z "$built" ]; then
    note 'building Kubernetes from source'
    "$one_node/build.sh" >"$work/build.log" 2>&1 ||
      { tail -5 "$work/build.log"; skip 'Kubernetes could not be built here'; }
  fi
  export PATH=$KUBE_BIN:$PATH
  note 'starting one node'
  down=("$one_node/down.sh")
  "$one_node/up.sh" >"$work/up.log" 2>&1 ||
    { tail -5 "$work/up.log" >&2; skip 'no node could be started on this machine'; }
  export KUBECONFIG=$KUBE_RUN/pki/admin.conf
  load=$one_node/load.sh
  # On a nearly full disk the kubelet removes images without a pod, so this pod uses the sandboxes' image.
  for _ in {1..60}; do kubectl get serviceaccount default >/dev/null 2>&1 && break || sleep 0.5; done
  kubectl run keeper --image=localhost/pause:1 --image-pull-policy=Never >/dev/null
else
  skip 'no KUBECONFIG, no kind, no ../shared/kube'
fi
for tool in helm kubectl; do command -v $tool >/dev/null || skip "$tool is not installed"; done
kubectl version >/dev/null 2>&1 || skip "no cluster answers at $KUBECONFIG"

# Building takes a quarter of an hour, so only on request, or if they are built already.
operators=${XDG_CACHE_HOME:-$HOME/.cache}/longwave-operators
if [ -z "${LONGWAVE_OPERATORS:-}" ] && [ ! -x "$operators/cert-manager" ]; then
  operators=
elif [ -z "$load" ]; then
  echo 'skipped: the operators: nothing brings their images to this cluster (LONGWAVE_LOAD)'
  operators=
else
  note 'the Prometheus operator and cert-manager, from their Go modules'
  status=0
  tests/kube/operators.sh "$operators" || status=$?
  # Why they could not be had was said; whoever asks for them is not told that all is well where they could.
  if [ "$status" != 0 ]; then
    [ "$status" = 77 ] || [ -z "${LONGWAVE_OPERATORS:-}" ] || exit 1
    echo 'going on without them'
    operators=
  fi
fi

images=${LONGWAVE_IMAGES:-localhost/}
if [ -n "$load" ]; then
  command -v buildah >/dev/null || skip 'buildah is not installed'
  if [ -n "${LONGWAVE_DIST:-}" ]; then
    note 'taking the images of the release'
    . tests/support/roots.sh
    for part in server worker; do release_image "$LONGWAVE_DIST" "$part" "$tag"; done
  else
    note 'building the images'
    helm/images/build.sh --programs "$programs" --tag "$tag"
  fi
else
  tag=${LONGWAVE_TAG:?the tag of the images, or LONGWAVE_LOAD, a command that loads them}
fi

note 'the scenario'
python3 -B tests/kube/scenario.py --programs "$programs" --images "$images" --tag "$tag" --work "$work" \
  ${load:+--load "$load"} ${operators:+--operators "$operators"} "$@"
