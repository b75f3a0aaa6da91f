#include "worker/trainer/gpt2_config.h"

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/config/gpt_shape.h"

namespace longwave {
namespace {

// What every model of ours has, by its name there. The layer's size is 4·n_embd where n_inner is
// null; the gelu is the exact one; a byte-level model has no words of its own for beginning and
// end.
nlohmann::ordered_json OfAll() {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", kGptVocabulary},
          {"n_inner", nullptr},
          {"activation_function", "gelu"},
          {"layer_norm_epsilon", 1e-5},
          {"tie_word_embeddings", true},
          {"scale_attn_weights", true},
          {"scale_attn_by_inverse_layer_idx", false},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0},
          {"resid_pdrop", 0.0},
          {"initializer_range", 0.02},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"torch_dtype", "float32"}};
}

// Those on which it depends what the model computes.
constexpr const char* kComputes[] = {"model_type", "vocab_size", "n_inner", "activation_function",
                                     "layer_norm_epsilon"};

constexpr std::pair<const char*, uint32_t ModelSection::*> kSizes[] = {
    {"n_embd", &ModelSection::d_model},
    {"n_layer", &ModelSection::layers},
    {"n_head", &ModelSection::heads},
    {"n_positions", &ModelSection::context}};

}  // namespace

std::string Gpt2Config(const ModelSection& model) {
  nlohmann::ordered_json config = OfAll();
  for (const auto& [name, size] : kSizes) config[name] = model.*size;
  return config.dump(2) + "\n";
}

absl::StatusOr<ModelSection> ReadGpt2Config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  std::ifstream file(path);
  if (!file) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot read ", path,
                            ", which describes the weights; wanted the folder of a run that has "
                            "written them"));
  }
  const auto config = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  const auto unfit = [&](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
  };
  if (!config.is_object()) return unfit("it is no JSON object");
  const nlohmann::json wanted = OfAll();
  for (const char* name : kComputes) {
    const nlohmann::json got = config.value(name, nlohmann::json());
    if (got != wanted[name])
      return unfit(absl::StrCat(name, ": got ", got.dump(), ", wanted ", wanted[name].dump()));
  }
  ModelSection model{.kind = "gpt"};
  for (const auto& [name, size] : kSizes) {
    const nlohmann::json got = config.value(name, nlohmann::json());
    if (!got.is_number_unsigned() || got.get<uint64_t>() > UINT32_MAX)
      return unfit(absl::StrCat(name, ": got ", got.dump(), ", wanted a whole number"));
    model.*size = got.get<uint32_t>();
  }
  return model;
}

}  // namespace longwave
