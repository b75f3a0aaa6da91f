#ifndef LONGWAVE_WORKER_MODELS_MODEL_FILE_H_
#define LONGWAVE_WORKER_MODELS_MODEL_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace longwave {

// NotFound: `path`, model.file, is no file on this machine.
absl::Status CheckModelFile(const std::string& path);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_MODELS_MODEL_FILE_H_
