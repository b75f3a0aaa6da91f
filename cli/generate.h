#ifndef LONGWAVE_CLI_GENERATE_H_
#define LONGWAVE_CLI_GENERATE_H_

#include <cstdint>
#include <string>

namespace longwave {

// `longwave generate`: text of a trained model. longwave-worker, which has LibTorch and the model's
// code, writes the text.
struct GenerateOptions {
  std::string folder;  // a run's, with model.safetensors and config.json
  std::string prompt = "\n";
  uint32_t length = 256;  // bytes, or tokens
  std::string
      tokenizer;  // tokenizer.json of a model of tokens; empty: the one beside the run's data
  double temperature = 0.8;
  uint32_t top_k = 40;  // 0: all bytes
  uint64_t seed = 0;
};

// Replaces this process by the worker that prints the text. Returns the exit status if that fails.
int RunGenerate(const GenerateOptions& options);

// Prints a few lines of the text of a run's model. Prints nothing if the run has no GPT, or the
// text takes too long.
void PrintSample(const std::string& run_folder);

}  // namespace longwave

#endif  // LONGWAVE_CLI_GENERATE_H_
