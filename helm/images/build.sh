#!/usr/bin/env bash
# Builds the images with buildah, into its local store:
#
#   helm/images/build.sh [--programs FOLDER] [--base IMAGE] [--tag TAG] [--cuda] [server] [worker]
#
#   --programs  from the programs in FOLDER (build/bin), which were built on this machine, with this machine's
#               libraries: seconds. Without it they are compiled in the base image: many minutes.
#   --base      the image to compile in [Debian 12 from its registry; where that cannot be reached, one that
#               debootstrap makes of this machine's package sources]
#   --tag       [the project's version]
#   --cuda      the worker for GPUs: compiled so in the base, or from programs that were built with a LibTorch that has
#               CUDA, which goes along (several gigabytes)
#
# BILLS is a folder for bills of materials, of images that are given on (assemble.sh); with SOURCE_DATE_EPOCH their files and they
# themselves have that time. Prints the size of each. STORAGE_DRIVER says where layers are kept [vfs, which works everywhere].
set -euo pipefail
cd "$(dirname "$0")/../.."

programs='' base='' cuda=OFF parts=()
tag=$(sed -n 's/.*project(longwave .*VERSION \([0-9.]*\).*/\1/Ip' CMakeLists.txt)
while (($#)); do
  case $1 in
    --programs) programs=$(cd "$2" && pwd); shift ;;
    --base) base=$2; shift ;;
    --tag) tag=$2; shift ;;
    --cuda) cuda=ON ;;
    server | worker) parts+=("$1") ;;
    *) echo "build.sh: got $1, wanted --programs, --base, --tag, --cuda, server or worker" >&2; exit 1 ;;
  esac
  shift
done
((${#parts[@]})) || parts=(server worker)
command -v buildah >/dev/null || { echo "build.sh: buildah is needed (the package of that name)" >&2; exit 1; }

buildah=(buildah --storage-driver "${STORAGE_DRIVER:-vfs}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# An image of what is in a folder.
image_of_folder() {
  local container
  container=$("${buildah[@]}" from scratch)
  "${buildah[@]}" add -q "$container" "$1" / >/dev/null
  "${buildah[@]}" commit -q --rm "$container" "$2" >/dev/null
}

# Debian, where its registry cannot be reached.
debootstrap_base() {
  command -v debootstrap >/dev/null || { echo "build.sh: no registry can be reached, and debootstrap is not installed" >&2; exit 1; }
  local mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -1)
  debootstrap --variant=minbase bookworm "$work/debian" "$mirror" >"$work/debootstrap.log" ||
    { tail -5 "$work/debootstrap.log" >&2; exit 1; }
  rm -rf "$work"/debian/var/cache/apt/archives/*.deb
  image_of_folder "$work/debian" localhost/longwave-debian:12
  rm -rf "$work/debian"
}

for part in "${parts[@]}"; do
  from=$base context=$PWD
  if [ -n "$programs" ]; then
    mkdir -p "$work/$part/bin" "$work/empty"
    CUDA=$cuda BILL=${BILLS:+$BILLS/longwave-$part.spdx.json} helm/images/assemble.sh "$part" "$programs" "$work/$part/image"
    # A shell for the step that finds nothing to do.
    cp "$(command -v busybox)" "$work/$part/bin/sh"
    from=localhost/longwave-$part-programs:latest context=$work/empty
    touch "$context/nothing"
    image_of_folder "$work/$part" "$from"
    rm -rf "${work:?}/$part"
  elif [ -z "$from" ]; then
    from=docker.io/library/debian:12-slim
    if ! "${buildah[@]}" pull -q "$from" >/dev/null 2>&1; then
      from=localhost/longwave-debian:12
      "${buildah[@]}" inspect --type image "$from" >/dev/null 2>&1 || debootstrap_base
    fi
  fi
  "${buildah[@]}" bud -q --isolation chroot --layers=false --build-arg "BASE=$from" ${SOURCE_DATE_EPOCH:+--timestamp "$SOURCE_DATE_EPOCH"} \
    $([ "$part" = server ] || echo "--build-arg CUDA=$cuda") \
    -f "helm/images/Containerfile.$part" -t "localhost/longwave-$part:$tag" "$context" >/dev/null
  [ -z "$programs" ] || "${buildah[@]}" rmi "$from" >/dev/null
  "${buildah[@]}" images --format '{{.Name}}:{{.Tag}} {{.Size}}' "localhost/longwave-$part:$tag"
done
