#include "kernels/cuda/fft.h"

#include <dlfcn.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave::cuda {
namespace {

// The part of cuFFT's C interface that is used here, unchanged since its first version, so that its
// header is not required.
using Handle = int;
using Result = int;  // 0: success
constexpr int kRealToComplex = 0x2a;

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

absl::StatusOr<Library> Load() {
  // Names for CUDA 13 and 12; LibTorch may have loaded the library already.
  std::string tried;
  for (const char* name : {"libcufft.so.12", "libcufft.so.11", "libcufft.so"}) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      absl::StrAppend(&tried, tried.empty() ? "" : "; ", dlerror());
      continue;
    }
    Library loaded;
    if (Find(library, "cufftPlanMany", loaded.plan_many) &&
        Find(library, "cufftSetStream", loaded.set_stream) &&
        Find(library, "cufftExecR2C", loaded.real_to_complex)) {
      return loaded;
    }
    return Unavailable(name, " lacks functions of cuFFT");
  }
  return Unavailable("no cuFFT here: ", tried);
}

absl::Status ToStatus(Result result, const char* call) {
  if (result == 0) return absl::OkStatus();
  return Internal("cuFFT: ", call, " fails with result ", result);
}

}  // namespace

absl::Status FftRuns(float* runs, uint32_t count, cudaStream_t stream) {
  constexpr int kLength = 4096;
  static const absl::StatusOr<Library> library = Load();
  LONGWAVE_RETURN_IF_ERROR(library.status());
  static auto& plans = *new std::map<uint32_t, Handle>;
  auto found = plans.find(count);
  if (found == plans.end()) {
    Handle plan = 0;
    int n[] = {kLength}, in_embed[] = {kLength + 2}, out_embed[] = {kLength / 2 + 1};
    LONGWAVE_RETURN_IF_ERROR(
        ToStatus(library->plan_many(&plan, 1, n, in_embed, 1, kLength + 2, out_embed, 1,
                                    kLength / 2 + 1, kRealToComplex, static_cast<int>(count)),
                 "cufftPlanMany"));
    found = plans.emplace(count, plan).first;
  }
  LONGWAVE_RETURN_IF_ERROR(ToStatus(library->set_stream(found->second, stream), "cufftSetStream"));
  return ToStatus(library->real_to_complex(found->second, runs, runs), "cufftExecR2C");
}

}  // namespace longwave::cuda
