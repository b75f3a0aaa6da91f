#ifndef LONGWAVE_CLI_GENERATE_H_
#define LONGWAVE_CLI_GENERATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace longwave {

// `longwave generate`: text of a trained model. longwave-worker, which has LibTorch and the model's
// code, writes the text.
struct GenerateOptions {
  std::string folder;  // a run's, with model.safetensors and config.json
  std::string prompt = "\n";
  uint32_t length = 256;  // bytes
  double temperature = 0.8;
  uint32_t top_k = 40;  // 0: all bytes
  uint64_t seed = 0;
};

// Replaces this process by the worker that prints the text. Returns the exit status if that fails.
int RunGenerate(const GenerateOptions& options);

// The text with its prompt, in lines. Errors: Unavailable (not finished within `patience`).
absl::StatusOr<std::vector<std::string>> SampleLines(const GenerateOptions& options,
                                                     absl::Duration patience);

}  // namespace longwave

#endif  // LONGWAVE_CLI_GENERATE_H_
