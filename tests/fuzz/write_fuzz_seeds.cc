// Writes the seeds that a program can make of the fuzz targets' corpora:
//   write_fuzz_seeds tests/fuzz/corpus

#include <cstdio>

#include "tests/fuzz/seeds.h"

int main(int argc, char** argv) {
  using namespace longwave;
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  if (WriteWireSeeds(argv[1]) && WriteStoreSeeds(argv[1]) && WriteCoordinatorSeeds(argv[1]) &&
      WriteCheckpointSeeds(argv[1])) {
    return 0;
  }
  std::fprintf(stderr, "%s: cannot be written\n", argv[1]);
  return 1;
}
