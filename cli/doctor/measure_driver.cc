// MeasureDriver, in a file of its own since it also runs without a driver.
#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/doctor/measure.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

std::string FirstLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool IsOnTheBus() {
  std::error_code error;
  for (fs::directory_iterator device("/sys/bus/pci/devices", error), end; !error && device != end;
       device.increment(error)) {
    // Vendor NVIDIA, class display controller.
    if (FirstLine(device->path() / "vendor") == "0x10de" &&
        absl::StartsWith(FirstLine(device->path() / "class"), "0x03"))
      return true;
  }
  return false;
}

// The first word that is a version, of "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14
// Thu Feb 22 …".
std::string ModuleVersion() {
  for (const absl::string_view word :
       absl::StrSplit(FirstLine("/proc/driver/nvidia/version"), ' ', absl::SkipEmpty())) {
    if (word.find('.') != word.npos &&
        std::ranges::all_of(word, [](char c) { return c == '.' || (c >= '0' && c <= '9'); }))
      return std::string(word);
  }
  return "";
}

// The required part of the CUDA driver's interface; int is its CUresult and CUdevice.
struct DriverApi {
  int (*init)(unsigned flags);
  int (*version)(int* version);
  int (*count)(int* count);
  int (*device)(int* device, int ordinal);
  int (*name)(char* name, int length, int device);
  int (*memory)(size_t* bytes, int device);
  int (*attribute)(int* value, int attribute, int device);
  int (*error_string)(int result, const char** text);
};
constexpr int kCapabilityMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
constexpr int kCapabilityMinor = 76;

bool Load(void* library, DriverApi* api) {
  const auto find = [library](const char* name, auto* entry) {
    *reinterpret_cast<void**>(entry) = dlsym(library, name);
    return *entry != nullptr;
  };
  return find("cuInit", &api->init) && find("cuDriverGetVersion", &api->version) &&
         find("cuDeviceGetCount", &api->count) && find("cuDeviceGet", &api->device) &&
         find("cuDeviceGetName", &api->name) && find("cuDeviceTotalMem_v2", &api->memory) &&
         find("cuDeviceGetAttribute", &api->attribute) &&
         find("cuGetErrorString", &api->error_string);
}

void ReadGpus(const DriverApi& api, DriverReading* reading) {
  int count = 0;
  if (const int result = api.init(0); result != 0) {
    const char* text = nullptr;
    api.error_string(result, &text);
    reading->why_not = absl::StrCat("cuInit: ", text == nullptr ? "unknown error" : text);
    return;
  }
  api.count(&count);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    GpuReading gpu;
    int device = 0;
    char name[256] = "";
    size_t bytes = 0;
    if (api.device(&device, ordinal) != 0 || api.name(name, sizeof name, device) != 0 ||
        api.memory(&bytes, device) != 0)
      continue;
    api.attribute(&gpu.capability_major, kCapabilityMajor, device);
    api.attribute(&gpu.capability_minor, kCapabilityMinor, device);
    gpu.name = name;
    gpu.memory_bytes = static_cast<double>(bytes);
    reading->gpus.push_back(std::move(gpu));
  }
}

}  // namespace

DriverReading MeasureDriver() {
  DriverReading reading{.on_the_bus = IsOnTheBus(), .version = ModuleVersion()};
  // The library stays loaded, since unloading it may crash.
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  DriverApi api;
  if (library == nullptr) {
    reading.why_not = dlerror();
  } else if (!Load(library, &api)) {
    reading.why_not = "libcuda.so.1 lacks entries of the CUDA driver's interface";
  } else {
    api.version(&reading.cuda_version);
    ReadGpus(api, &reading);
  }
  return reading;
}

}  // namespace longwave
