# For the scripts of this folder, from the tree's root: the programs, whether they were packed (pack.sh) or built here.
# Sets packed (the archive's folder, or nothing) and, where it is set, bin, text, LD_LIBRARY_PATH, LONGWAVE_BIN, LONGWAVE_LIBRARY and PYTHONPATH.
# shellcheck shell=bash
packed=
if [ -e ../packed ]; then
  packed=$(cd .. && pwd)
  bin=$packed/bin
  # PyTorch's libraries, found without loading them, and NVIDIA's beside them. Our own come first.
  LD_LIBRARY_PATH=$packed/lib:$(python3 -c '
import importlib.util, pathlib
torch = importlib.util.find_spec("torch")
if torch is not None:
    folder = pathlib.Path(torch.origin).parent
    print(":".join(map(str, [folder / "lib", *sorted((folder.parent / "nvidia").glob("*/lib"))])))
' 2>/dev/null || true)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export LD_LIBRARY_PATH LONGWAVE_BIN=$bin LONGWAVE_LIBRARY=$packed/lib/liblongwave.so.1 PYTHONPATH=$packed/src/python
  export LONGWAVE_TEST_TEXT=${LONGWAVE_TEST_TEXT:-$packed/text} PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
fi
