#include "worker/weights/gpt2_config.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/config/config.h"
#include "worker/weights/shallow_json.h"

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
// Likewise, where transformers leave out the usual values.
constexpr const char* kMayComputeOtherwise[] = {"tie_word_embeddings", "scale_attn_weights",
                                                "scale_attn_by_inverse_layer_idx"};

struct Size {
  const char* name;  // transformers'
  const char* key;   // of our configuration
  uint32_t ModelSection::*member;
};
constexpr Size kSizes[] = {{"vocab_size", "vocabulary", &ModelSection::vocabulary},
                           {"n_embd", "d_model", &ModelSection::d_model},
                           {"n_layer", "layers", &ModelSection::layers},
                           {"n_head", "heads", &ModelSection::heads},
                           {"n_positions", "context", &ModelSection::context}};

// Whether a config.json describes what our models compute.
absl::Status CheckComputes(const std::string& path, const nlohmann::json& config) {
  const nlohmann::json wanted = OfAll();
  const auto check = [&](const char* name, const nlohmann::json& if_absent) {
    const nlohmann::json got = config.value(name, if_absent);
    if (got == wanted[name]) return absl::OkStatus();
    return InvalidArgument(path, ": ", name, ": got ", got.dump(), ", wanted ",
                           wanted[name].dump());
  };
  for (const char* name : kComputes) LONGWAVE_RETURN_IF_ERROR(check(name, nlohmann::json()));
  for (const char* name : kMayComputeOtherwise) LONGWAVE_RETURN_IF_ERROR(check(name, wanted[name]));
  return absl::OkStatus();
}

}  // namespace

std::string Gpt2Config(const ModelSection& model) {
  nlohmann::ordered_json config = OfAll();
  for (const Size& size : kSizes) config[size.name] = model.*size.member;
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
  const nlohmann::json config = ParseShallowJson(file);
  const auto unfit = [&](const std::string& why) { return InvalidArgument(path, ": ", why); };
  if (!config.is_object()) return unfit("it is no JSON object");
  LONGWAVE_RETURN_IF_ERROR(CheckComputes(path, config));
  std::string model = "kind: gpt";
  for (const Size& size : kSizes) {
    const nlohmann::json got = config.value(size.name, nlohmann::json());
    if (!got.is_number_unsigned())
      return unfit(absl::StrCat(size.name, ": got ", got.dump(), ", wanted a whole number"));
    absl::StrAppend(&model, ", ", size.key, ": ", got.dump());
  }
  // The sizes have the limits of a run's.
  LONGWAVE_ASSIGN_OR_RETURN(const RunConfig run,
                            ParseConfig(absl::StrCat("model: {", model, "}"), path));
  return run.model;
}

absl::Status CheckGpt2Config(const std::string& weights, const ModelSection& model,
                             std::string* warning) {
  std::filesystem::path path(weights);
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    if (!path.filename().string().starts_with("model.safetensors")) return absl::OkStatus();
    path = path.parent_path();
  }
  path /= "config.json";
  std::ifstream file(path);
  const nlohmann::json config = ParseShallowJson(file);
  if (!config.is_object()) return absl::OkStatus();
  const nlohmann::json heads = config.value("n_head", nlohmann::json());
  if (!heads.is_null() && heads != model.heads) {
    return InvalidArgument(path.string(), ": n_head: got ", heads.dump(), ", wanted model.heads, ",
                           model.heads);
  }
  if (const absl::Status same = CheckComputes(path.string(), config); !same.ok())
    *warning = absl::StrCat(same.message(), "; the weights are begun with all the same");
  return absl::OkStatus();
}

}  // namespace longwave
