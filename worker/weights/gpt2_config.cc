#include "worker/weights/gpt2_config.h"

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace longwave {
namespace {

// Properties of all our models, by transformers' names. A null n_inner means 4·n_embd, and the gelu
// is the exact one. Our models have no tokens for beginning or end.
nlohmann::ordered_json OfAll() {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
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

// The properties that affect the model's results.
constexpr const char* kComputes[] = {"model_type", "n_inner", "activation_function",
                                     "layer_norm_epsilon"};

constexpr std::pair<const char*, uint32_t ModelSection::*> kSizes[] = {
    {"vocab_size", &ModelSection::vocabulary},
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
