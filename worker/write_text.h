#ifndef LONGWAVE_WORKER_WRITE_TEXT_H_
#define LONGWAVE_WORKER_WRITE_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/models/generate.h"

namespace longwave {

// Options of `longwave generate`, which itself lacks LibTorch.
struct TextOptions {
  std::string folder;  // contains model.safetensors and config.json
  std::string prompt = "\n";
  std::string tokenizer;  // tokenizer.json; needed for a model of tokens
  uint32_t length = 256;
  Sampling sampling;
};

// Prints the prompt and the model's continuation, computed on the CPU.
absl::Status WriteText(const TextOptions& options);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_WRITE_TEXT_H_
