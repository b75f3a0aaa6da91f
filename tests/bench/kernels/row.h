#ifndef LONGWAVE_TESTS_BENCH_KERNELS_ROW_H_
#define LONGWAVE_TESTS_BENCH_KERNELS_ROW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longwave::bench {

// A line of kernels.csv. tests/bench/README.md, explains the columns.
struct Row {
  std::string bench;    // copy, pass, read_write, encode…, decode_update…
  std::string backend;  // reference, cpu, cpu-generic, cpu-avx2, cuda, pytorch
  int threads = 1;
  uint64_t params = 0;
  uint32_t k = 0;                  // of 4096; 0 beside the copies and passes
  std::string transform = "none";  // none, dct (64 × 64 blocks), dct-run (runs of 4096)
  uint32_t bits = 0;
  double seconds = 0;          // the best of the repetitions
  double bytes = 0;            // bytes that must move, by design
  double percent_of_copy = 0;  // of the row `copy` of the same backend and threads
  double times_reference = 0;
  bool ok = false;  // the result was checked and is right

  double params_per_s() const { return static_cast<double>(params) / seconds; }
  double gb_per_s() const { return bytes / seconds * 1e-9; }
};

inline constexpr char kHeader[] =
    "bench,backend,threads,params,k,transform,bits,seconds,bytes,gb_per_s,percent_of_copy,"
    "params_per_s,times_reference,check";

std::string ToLine(const Row& row);

// Rows that another program wrote (the PyTorch step). InvalidArgument: not such a file.
absl::StatusOr<std::vector<Row>> ReadRows(const std::string& path);

// Fills percent_of_copy and times_reference, which need the whole table:
//   percent_of_copy   bytes a second over those of `copy`, same backend and threads
//   times_reference   parameters a second over those of the plain way of the same kind (encode or
//                     decode-update) and transform, at k 64 and 2 bit: PyTorch's in one thread
//                     where the table has it, else the reference backend's; 0 where there is none
void Relate(std::vector<Row>& rows);

}  // namespace longwave::bench

#endif  // LONGWAVE_TESTS_BENCH_KERNELS_ROW_H_
