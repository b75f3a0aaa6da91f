#ifndef LONGWAVE_TESTS_GOLDEN_SAFETENSORS_READER_H_
#define LONGWAVE_TESTS_GOLDEN_SAFETENSORS_READER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longwave {

struct GoldenTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

struct GoldenFile {
  std::map<std::string, std::string> metadata;
  std::map<std::string, GoldenTensor> tensors;
};

// Reads a .safetensors file of fp32 tensors: u64 length of a JSON header, the header, the data.
absl::StatusOr<GoldenFile> ReadSafetensors(const std::string& path);

}  // namespace longwave

#endif  // LONGWAVE_TESTS_GOLDEN_SAFETENSORS_READER_H_
