#ifndef LONGWAVE_KERNELS_CHECK_ARGS_H_
#define LONGWAVE_KERNELS_CHECK_ARGS_H_

#include "absl/status/status.h"
#include "kernels/ops.h"

namespace longwave {

// The checks of arguments that all backends share: required pointers, a segment of the layout, a
// payload layout with the segment's tiles, a payload of its length, finite numbers. Errors:
// InvalidArgument, with what was got and wanted.
absl::Status CheckArgs(const EncodeArgs& args);
absl::Status CheckArgs(const RestoreArgs& args);
absl::Status CheckArgs(const DecodeUpdateArgs& args);
absl::Status CheckArgs(const HashArgs& args);
absl::Status CheckArgs(const AdamWArgs& args);
absl::Status CheckArgs(const SquareSumArgs& args);
absl::Status CheckArgs(const ScaleArgs& args);
absl::Status CheckArgs(const BlendArgs& args);

}  // namespace longwave

#endif  // LONGWAVE_KERNELS_CHECK_ARGS_H_
