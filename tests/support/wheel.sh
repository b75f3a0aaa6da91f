# For test scripts, which run at the top of the tree: the wheel that would be published.
# shellcheck shell=bash

# Makes it in build/python/wheel. One that is newer than all that goes into it is not built again.
make_wheel() {
  local wheel begin=$SECONDS
  local sources=(CMakeLists.txt cli cmake common configs kernels proto python server tools/wheel.sh tools/libraries.txt worker)
  wheel=$(ls build/python/wheel/longwave-*.whl 2>/dev/null || true)
  if [ -n "$wheel" ] && [ -z "$(find "${sources[@]}" -type f -newer "$wheel" -print -quit)" ]; then return; fi
  tools/wheel.sh build/python/wheel
  echo "the wheel was built in $((SECONDS - begin)) s"
}
