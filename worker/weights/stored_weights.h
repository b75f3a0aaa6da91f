#ifndef LONGWAVE_WORKER_WEIGHTS_STORED_WEIGHTS_H_
#define LONGWAVE_WORKER_WEIGHTS_STORED_WEIGHTS_H_

#include <cstdint>
#include <istream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout/layout.h"
#include "common/layout/manifest.h"

namespace longwave {

// The tensors of one or several safetensors files, which are read when they are wanted.
class StoredWeights {
 public:
  // path: a file; the index of several (model.safetensors.index.json); or a folder with one of
  // them. File errors as NotFound. InvalidArgument: another format.
  static absl::StatusOr<StoredWeights> Open(const std::string& path);

  // Adds the tensors of a file of `bytes`. path: for errors. InvalidArgument: not whole.
  absl::Status Add(const std::string& path, std::unique_ptr<std::istream> file, uint64_t bytes);

  // All tensors of a model, flat in the layout's order, from F32, F16 or BF16. The names may be
  // those of a GPT2LMHeadModel of transformers: behind "transformer.", with a head that is equal to
  // the embedding, and with the attention's buffers. InvalidArgument: another model, or a number
  // that is not finite; the message names the tensor.
  absl::StatusOr<std::vector<float>> Read(const Manifest& manifest, const Layout& layout);

 private:
  struct Tensor {
    std::istream* file;
    uint64_t file_bytes;
    uint64_t data_begin;  // behind the header
    nlohmann::json entry;
    std::string path;
  };

  absl::Status ReadTensor(const Tensor& tensor, const TensorSpec& wanted, float* values) const;
  // Whether what the model does not have is what transformers keep beside it.
  absl::Status CheckRest(const Manifest& manifest, const Layout& layout,
                         const std::vector<float>& flat) const;

  std::string path_;
  std::vector<std::unique_ptr<std::istream>> files_;
  std::map<std::string, Tensor> tensors_;  // by name, without transformers' prefix
};

}  // namespace longwave

#endif  // LONGWAVE_WORKER_WEIGHTS_STORED_WEIGHTS_H_
