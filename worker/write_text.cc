#include "worker/write_text.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/errors.h"
#include "common/base/print.h"
#include "common/base/status_macros.h"
#include "common/base/threads.h"
#include "common/config/gpt_shape.h"
#include "common/layout/layout.h"
#include "worker/models/tokenizer.h"
#include "worker/weights/gpt2_config.h"
#include "worker/weights/safetensors.h"

namespace longwave {
namespace {

constexpr double kParametersOfAThread = 20e6;

// Prints text line by line. PrintLine makes a model's control characters harmless to terminals.
class LinePrinter {
 public:
  void Print(char c) {
    static constexpr size_t kTabColumns = 8;
    if (c == '\n') {
      Flush();
    } else if (c == '\t') {
      line_.append(kTabColumns - line_.size() % kTabColumns, ' ');
    } else {
      line_ += c;
    }
  }
  void Flush() {
    PrintLine(stdout, line_);
    line_.clear();
  }

 private:
  std::string line_;
};

}  // namespace

absl::Status WriteText(const TextOptions& options) {
  if (options.prompt.empty()) {
    return InvalidArgument("--prompt: got nothing, wanted a byte or more to go on with");
  }
  if (!(options.sampling.temperature >= 0)) {
    return InvalidArgument("--temperature: got ", options.sampling.temperature,
                           ", wanted 0 or more");
  }
  LONGWAVE_ASSIGN_OR_RETURN(const ModelSection model, ReadGpt2Config(options.folder));
  std::optional<Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) {
    LONGWAVE_ASSIGN_OR_RETURN(tokenizer, Tokenizer::Read(options.tokenizer));
    if (tokenizer->size() > model.vocabulary) {
      return InvalidArgument("--tokenizer: got one of ", tokenizer->size(), " tokens in ",
                             options.tokenizer, ", wanted that of the model's ", model.vocabulary);
    }
  } else if (model.vocabulary != kByteVocabulary) {
    return InvalidArgument(
        "got a model of ", model.vocabulary,
        " tokens, wanted --tokenizer FILE: the tokenizer.json that its data were "
        "made with");
  }
  // Larger models get several threads.
  const double share = GptParameterCount(model) / kParametersOfAThread;
  const int threads = 1 + static_cast<int>(std::min<double>(share, DefaultThreads() / 2));
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::unique_ptr<Replica> replica,
      Replica::Create(model, {.batch = 1, .autocast = "none"}, /*seed=*/0, threads));
  // The place of tensors in the flat array does not depend on the tiling.
  LONGWAVE_ASSIGN_OR_RETURN(const Layout layout,
                            Layout::Create(replica->manifest(), LayoutOptions{}));
  LONGWAVE_ASSIGN_OR_RETURN(
      const std::vector<float> theta,
      ReadWeights(options.folder + "/model.safetensors", replica->manifest(), layout));
  std::copy(theta.begin(), theta.end(), replica->theta());
  LinePrinter printer;
  std::vector<int64_t> prompt;
  if (tokenizer) prompt = tokenizer->Encode(options.prompt);
  for (const char c : options.prompt) {
    printer.Print(c);
    if (!tokenizer) prompt.push_back(static_cast<uint8_t>(c));
  }
  const absl::Status status =
      Generate(*replica, model.context, std::move(prompt), options.length, options.sampling,
               [&](size_t token) {
                 const char byte = static_cast<char>(token);
                 const std::string_view text =
                     tokenizer ? tokenizer->BytesOf(token) : std::string_view(&byte, 1);
                 for (const char c : text) printer.Print(c);
                 return std::ferror(stdout) == 0;
               });
  printer.Flush();
  return absl::IsCancelled(status) ? absl::OkStatus() : status;
}

}  // namespace longwave
