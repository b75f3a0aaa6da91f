#ifndef LONGWAVE_COMMON_CONFIG_MODEL_SHAPE_H_
#define LONGWAVE_COMMON_CONFIG_MODEL_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/config/run_config.h"
#include "common/layout/manifest.h"

namespace longwave {

// Tensors and sizes of the built-in models, without building one.

// Whether the model is one of ours, which the configuration describes: not of a file or a worker.
bool IsBuiltIn(const ModelSection& model);

// Whether the built-in model classifies images; else it goes on with text.
bool IsOfImages(const ModelSection& model);

// Errors: InvalidArgument (not built in, sizes that make no model).
absl::StatusOr<Manifest> ModelManifest(const ModelSection& model);

// In double, since a wanted model may overflow integers.
double ModelParameterCount(const ModelSection& model);

// Approximate bytes that a step's forward pass keeps for its backward pass. checkpoints: see
// train.activation_checkpoints. 0 of a model that is not built in.
double ModelActivationBytes(const ModelSection& model, uint32_t batch, bool checkpoints);

// A residual CNN with GroupNorm in eight groups. A 3 × 3 convolution comes first, then stages of
// blocks of two such convolutions; each stage but the first halves the size. The mean over the rest
// and a linear head come last. A block whose width or size differs from its input's has a 1 × 1
// convolution as its shortcut. Source: He et al. 2016 (arXiv 1512.03385), Wu & He 2018 (arXiv
// 1803.08494).
struct ResnetShape {
  std::vector<int64_t> widths;  // one for each stage
  uint32_t blocks = 0;          // in each stage
};
inline constexpr int64_t kResnetGroups = 8;
// The shape by model.layers: 8 (widths 16 to 64, one block each) or 18 (64 to 512, two). Errors:
// InvalidArgument (another number).
absl::StatusOr<ResnetShape> ResnetShapeOf(const ModelSection& model);

// A vision transformer: patches of an image, by rows, through a linear map, with learned positions;
// model.layers blocks as the GPT's, but without a mask; the mean over the patches and a linear
// head. Source: Dosovitskiy et al. 2021 (arXiv 2010.11929), the mean from Beyer et al. 2022 (arXiv
// 2205.01580).
inline constexpr size_t kVitPositions = 2;  // of the tensors: after the map's two
inline constexpr size_t kVitFirstTensors = 3;
uint32_t VitPatches(const ModelSection& model);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_CONFIG_MODEL_SHAPE_H_
