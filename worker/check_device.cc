#include "worker/check_device.h"

#include <cstdio>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/print.h"
#include "worker/models/device.h"

namespace longwave {

int CheckDevice(const std::string& asked) {
  const absl::StatusOr<Device> device = OpenDevice(asked);
  if (!device.ok()) return ExitStatus("error: longwave-worker", device.status());
  PrintLine(stdout, absl::StrCat("device ", device->ops->on_device ? "cuda" : "cpu"));
  if (!device->why_not_cuda.empty())
    PrintLine(stdout, absl::StrCat("why not cuda ", device->why_not_cuda));
  return 0;
}

}  // namespace longwave
