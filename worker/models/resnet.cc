#include "worker/models/resnet.h"

namespace longwave {
namespace {

// Iterates over a model's parameters in the manifest's order.
class Parameters {
 public:
  explicit Parameters(std::span<const at::Tensor> tensors) : tensors_(tensors) {}

  at::Tensor Convolve(const at::Tensor& x, int64_t stride = 1) {
    const at::Tensor& weight = Next();
    return at::conv2d(x, weight, {}, stride, /*padding=*/weight.size(2) / 2);
  }
  at::Tensor Normalize(const at::Tensor& x) {
    const at::Tensor& scale = Next();
    return at::group_norm(x, kResnetGroups, scale, Next());
  }
  const at::Tensor& Next() { return tensors_[next_++]; }

 private:
  std::span<const at::Tensor> tensors_;
  size_t next_ = 0;
};

}  // namespace

at::Tensor ResnetLogits(const ResnetShape& shape, std::span<const at::Tensor> parameters,
                        const at::Tensor& pixels) {
  Parameters p(parameters);
  at::Tensor x = p.Convolve(pixels);
  x = at::relu(p.Normalize(x));
  for (const int64_t width : shape.widths) {
    for (uint32_t block = 0; block < shape.blocks; ++block) {
      const bool is_wider = x.size(1) != width;
      const int64_t stride = is_wider ? 2 : 1;
      at::Tensor y = p.Convolve(x, stride);
      y = at::relu(p.Normalize(y));
      y = p.Convolve(y);
      y = p.Normalize(y);
      x = at::relu(y + (is_wider ? p.Convolve(x, stride) : x));
    }
  }
  const at::Tensor& weight = p.Next();
  return at::addmm(p.Next(), x.mean({2, 3}), weight);
}

}  // namespace longwave
