#include "common/config/model_shape.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "common/config/gpt_shape.h"

namespace longwave {
namespace {

absl::StatusOr<Manifest> ResnetManifest(const ModelSection& model) {
  LONGWAVE_ASSIGN_OR_RETURN(const ResnetShape shape, ResnetShapeOf(model));
  Manifest manifest;
  const auto add = [&](std::string name, std::vector<int64_t> sizes) {
    manifest.tensors.push_back({std::move(name), std::move(sizes)});
  };
  const auto norm = [&](const std::string& name, int64_t width) {
    add(name + ".weight", {width});
    add(name + ".bias", {width});
  };
  int64_t before = shape.widths.front();
  add("stem.weight", {before, model.channels, 3, 3});
  norm("stem_norm", before);
  for (size_t stage = 0; stage < shape.widths.size(); ++stage) {
    const int64_t width = shape.widths[stage];
    for (uint32_t i = 0; i < shape.blocks; ++i) {
      const std::string block = absl::StrCat("stage.", stage, ".", i, ".");
      add(block + "conv_1.weight", {width, before, 3, 3});
      norm(block + "norm_1", width);
      add(block + "conv_2.weight", {width, width, 3, 3});
      norm(block + "norm_2", width);
      if (before != width) add(block + "shortcut.weight", {width, before, 1, 1});
      before = width;
    }
  }
  add("head.weight", {before, model.classes});
  add("head.bias", {model.classes});
  return manifest;
}

absl::StatusOr<Manifest> VitManifest(const ModelSection& model) {
  if (model.patch == 0 || model.image_size % model.patch != 0) {
    return InvalidArgument("model.patch: got ", model.patch,
                           ", wanted a divisor of model.image_size (", model.image_size, ")");
  }
  LONGWAVE_RETURN_IF_ERROR(CheckBlocks(model, VitPatches(model)));
  const int64_t patch = model.patch, d = model.d_model;
  Manifest manifest;
  manifest.tensors = {{"patch_embedding.weight", {model.channels * patch * patch, d}},
                      {"patch_embedding.bias", {d}},
                      {"position.weight", {VitPatches(model), d}}};
  AddBlocks(model, &manifest);
  manifest.tensors.push_back({"head.weight", {d, model.classes}});
  manifest.tensors.push_back({"head.bias", {model.classes}});
  return manifest;
}

}  // namespace

bool IsBuiltIn(const ModelSection& model) { return model.kind == "gpt" || IsOfImages(model); }

bool IsOfImages(const ModelSection& model) { return model.kind == "resnet" || model.kind == "vit"; }

uint32_t VitPatches(const ModelSection& model) {
  const uint32_t side = model.image_size / model.patch;
  return side * side;
}

absl::StatusOr<ResnetShape> ResnetShapeOf(const ModelSection& model) {
  if (model.layers == 8) return ResnetShape{{16, 32, 64}, 1};
  if (model.layers == 18) return ResnetShape{{64, 128, 256, 512}, 2};
  return InvalidArgument("model.layers: got ", model.layers,
                         ", wanted 8 or 18 with model.kind resnet");
}

absl::StatusOr<Manifest> ModelManifest(const ModelSection& model) {
  if (model.kind == "gpt") return GptManifest(model);
  if (model.kind == "resnet") return ResnetManifest(model);
  if (model.kind == "vit") return VitManifest(model);
  return InvalidArgument("model.kind is \"", model.kind,
                         "\"; wanted \"gpt\", \"resnet\" or \"vit\"");
}

double ModelParameterCount(const ModelSection& model) {
  if (!IsOfImages(model)) return GptParameterCount(model);
  const absl::StatusOr<Manifest> manifest = ModelManifest(model);
  return manifest.ok() ? static_cast<double>(ParameterCount(*manifest)) : 0;
}

double ModelActivationBytes(const ModelSection& model, uint32_t batch, bool checkpoints) {
  if (!IsBuiltIn(model)) return 0;
  if (model.kind == "vit") {
    ModelSection gpt = model;
    gpt.context = VitPatches(model);
    gpt.vocabulary = 0;
    return GptActivationBytes(gpt, batch, checkpoints);
  }
  if (model.kind != "resnet") return GptActivationBytes(model, batch, checkpoints);
  const absl::StatusOr<ResnetShape> shape = ResnetShapeOf(model);
  if (!shape.ok()) return 0;
  double floats = 0, pixels = static_cast<double>(model.image_size) * model.image_size;
  for (const int64_t width : shape->widths) {
    // For each block: two convolutions, their norms and ReLUs, and the sum.
    floats += 7.0 * shape->blocks * static_cast<double>(width) * pixels;
    pixels /= 4;
  }
  return 4.0 * batch * floats;
}

}  // namespace longwave
