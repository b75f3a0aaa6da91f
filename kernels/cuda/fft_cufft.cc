#include "kernels/cuda/fft.h"

#include <dlfcn.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"
#include "kernels/cuda/cuda_ops.h"

namespace longwave::cuda {
namespace {

// The part of cuFFT's C interface that is used here, unchanged since its first version, so that its
// header is not required.
using Handle = int;
using Result = int;  // 0: success
constexpr int kRealToComplex = 0x2a;
constexpr int kLength = 4096;

struct Library {
  Result (*plan_many)(Handle*, int rank, int* n, int* in_embed, int in_stride, int in_distance,
                      int* out_embed, int out_stride, int out_distance, int type, int batch);
  Result (*set_stream)(Handle, cudaStream_t);
  Result (*real_to_complex)(Handle, float* in, void* out);
};

template <typename F>
bool Find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  return function != nullptr;
}

absl::Status ToStatus(Result result, const char* call) {
  if (result == 0) return absl::OkStatus();
  return Internal("cuFFT: ", call, " fails with result ", result);
}

// By count.
std::map<uint32_t, Handle>& Plans() {
  static auto& plans = *new std::map<uint32_t, Handle>;
  return plans;
}

absl::Status AddPlan(const Library& library, uint32_t count) {
  Handle plan = 0;
  int n[] = {kLength}, in_embed[] = {kLength + 2}, out_embed[] = {kLength / 2 + 1};
  LONGWAVE_RETURN_IF_ERROR(
      ToStatus(library.plan_many(&plan, 1, n, in_embed, 1, kLength + 2, out_embed, 1,
                                 kLength / 2 + 1, kRealToComplex, static_cast<int>(count)),
               "cufftPlanMany"));
  Plans().emplace(count, plan);
  return absl::OkStatus();
}

absl::StatusOr<Library> Open(const char* name) {
  void* const file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) return Unavailable(dlerror());
  Library library;
  if (!Find(file, "cufftPlanMany", library.plan_many) ||
      !Find(file, "cufftSetStream", library.set_stream) ||
      !Find(file, "cufftExecR2C", library.real_to_complex)) {
    return Unavailable(name, " lacks functions of cuFFT");
  }
  // A library that is too new for the driver, or too old for the GPU, still loads.
  if (absl::Status made = AddPlan(library, 1); !made.ok()) return Prefixed(name, made);
  return library;
}

absl::StatusOr<Library> Load() {
  // Names for CUDA 13 and 12; LibTorch may have loaded the library already.
  std::string tried;
  for (const char* name : {"libcufft.so.12", "libcufft.so.11", "libcufft.so"}) {
    absl::StatusOr<Library> library = Open(name);
    if (library.ok()) return library;
    absl::StrAppend(&tried, tried.empty() ? "" : "; ", library.status().message());
  }
  return Unavailable("no cuFFT here: ", tried);
}

const absl::StatusOr<Library>& Loaded() {
  static const absl::StatusOr<Library> library = Load();
  return library;
}

}  // namespace

const absl::Status& FftStatus() { return Loaded().status(); }

absl::Status FftRuns(float* runs, uint32_t count, cudaStream_t stream) {
  const Library& library = *Loaded();
  if (!Plans().contains(count)) LONGWAVE_RETURN_IF_ERROR(AddPlan(library, count));
  const Handle plan = Plans().at(count);
  LONGWAVE_RETURN_IF_ERROR(ToStatus(library.set_stream(plan, stream), "cufftSetStream"));
  return ToStatus(library.real_to_complex(plan, runs, runs), "cufftExecR2C");
}

}  // namespace longwave::cuda
