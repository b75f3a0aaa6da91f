#ifndef LONGWAVE_WORKER_WRITE_TEXT_H_
#define LONGWAVE_WORKER_WRITE_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/trainer/generate.h"

namespace longwave {

// For `longwave generate`, which has no LibTorch.
struct TextOptions {
  std::string folder;  // with model.safetensors and config.json
  std::string prompt = "\n";
  uint32_t length = 256;
  Sampling sampling;
};

// Prints the prompt and what the model goes on with, on the CPU.
absl::Status WriteText(const TextOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_WRITE_TEXT_H_
