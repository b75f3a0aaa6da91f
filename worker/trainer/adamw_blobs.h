#ifndef LONGWAVE_WORKER_TRAINER_ADAMW_BLOBS_H_
#define LONGWAVE_WORKER_TRAINER_ADAMW_BLOBS_H_

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/models/adamw.h"

namespace longwave {

// An AdamW's part of a checkpoint: adamw.m and adamw.v, f32 a parameter, and adamw.powers, two f64.

// Adds them; their bytes are a copy on the host. Errors: the device's.
absl::Status SaveAdamW(const AdamW& optimizer, std::vector<NamedBlob>* blobs);

// InvalidArgument: other blobs, or such of another number of parameters.
absl::Status LoadAdamW(std::span<const NamedBlob> blobs, AdamW* optimizer);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_TRAINER_ADAMW_BLOBS_H_
