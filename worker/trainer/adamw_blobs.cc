#include "worker/trainer/adamw_blobs.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/wire/buffer.h"

namespace longwave {
namespace {

constexpr char kFirstMoments[] = "adamw.m";
constexpr char kSecondMoments[] = "adamw.v";
constexpr char kPowers[] = "adamw.powers";

}  // namespace

absl::Status SaveAdamW(const AdamW& optimizer, std::vector<NamedBlob>* blobs) {
  LONGWAVE_ASSIGN_OR_RETURN(AdamW::State moments, optimizer.Export());
  const auto state = std::make_shared<const AdamW::State>(std::move(moments));
  const auto add = [&](const char* name, const auto& array) {
    blobs->push_back({.name = name, .bytes = Buffer(std::as_bytes(std::span(array)), state)});
  };
  add(kFirstMoments, state->m);
  add(kSecondMoments, state->v);
  add(kPowers, state->powers);
  return absl::OkStatus();
}

absl::Status LoadAdamW(std::span<const NamedBlob> blobs, AdamW* optimizer) {
  AdamW::StateBytes state;
  for (const NamedBlob& blob : blobs) {
    if (blob.name == kFirstMoments) {
      state.m = blob.bytes.bytes();
    } else if (blob.name == kSecondMoments) {
      state.v = blob.bytes.bytes();
    } else if (blob.name == kPowers) {
      state.powers = blob.bytes.bytes();
    } else {
      return absl::InvalidArgumentError(absl::StrCat("checkpoint: got the blob ", blob.name,
                                                     ", wanted those of AdamW: ", kFirstMoments,
                                                     ", ", kSecondMoments, " and ", kPowers));
    }
  }
  return optimizer->Load(state);
}

}  // namespace longwave
