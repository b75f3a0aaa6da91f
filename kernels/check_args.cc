#include "kernels/check_args.h"

#include <cmath>
#include <initializer_list>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/base/errors.h"
#include "common/base/status_macros.h"

namespace longwave {
namespace {

struct Needed {
  const char* name;
  const void* pointer;
};

absl::Status CheckPointers(absl::string_view op, std::initializer_list<Needed> needed) {
  for (const Needed& each : needed) {
    if (each.pointer == nullptr) return InvalidArgument(op, ": ", each.name, " is null");
  }
  return absl::OkStatus();
}

absl::Status CheckFinite(absl::string_view op,
                         std::initializer_list<std::pair<absl::string_view, float>> values) {
  for (const auto& [name, value] : values) {
    if (!std::isfinite(value))
      return InvalidArgument(op, ": ", name, " is ", value, ", wanted a finite number");
  }
  return absl::OkStatus();
}

absl::Status CheckSegment(absl::string_view op, const Layout& layout, uint32_t segment) {
  if (segment < layout.segments().size()) return absl::OkStatus();
  return InvalidArgument(op, ": segment ", segment, " of a layout that has ",
                         layout.segments().size());
}

absl::Status CheckTransform(absl::string_view op, Transform transform) {
  if (transform == Transform::kNone || transform == Transform::kDct) return absl::OkStatus();
  return InvalidArgument(op, ": unknown transform ", static_cast<int>(transform));
}

absl::Status CheckPayload(absl::string_view op, const Layout& layout, uint32_t segment,
                          const PayloadLayout& payload_layout, size_t payload_bytes) {
  LONGWAVE_RETURN_IF_ERROR(CheckSegment(op, layout, segment));
  const auto tiles = layout.tiles(layout.segments()[segment]);
  if (payload_layout.tile_count() != tiles.size()) {
    return InvalidArgument(op, ": payload of ", payload_layout.tile_count(), " tiles, segment ",
                           segment, " has ", tiles.size());
  }
  for (uint32_t t = 0; t < tiles.size(); ++t) {
    if (payload_layout.tile_size(t) != tiles[t].size()) {
      return InvalidArgument(op, ": payload has ", payload_layout.tile_size(t),
                             " coefficients in tile ", t, " of segment ", segment, ", which has ",
                             tiles[t].size());
    }
  }
  if (payload_bytes != payload_layout.bytes()) {
    return InvalidArgument(op, ": payload of ", payload_bytes, " bytes, wanted ",
                           payload_layout.bytes());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckArgs(const EncodeArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckPointers("encode", {{"layout", args.layout},
                                                    {"signal", args.signal.a},
                                                    {"momentum", args.momentum},
                                                    {"payload layout", args.payload_layout},
                                                    {"report", args.report}}));
  LONGWAVE_RETURN_IF_ERROR(CheckTransform("encode", args.transform));
  LONGWAVE_RETURN_IF_ERROR(CheckFinite("encode", {{"beta", args.beta}, {"alpha", args.alpha}}));
  return CheckPayload("encode", *args.layout, args.segment, *args.payload_layout,
                      args.payload.size());
}

absl::Status CheckArgs(const RestoreArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckPointers("restore", {{"layout", args.layout},
                                                     {"momentum", args.momentum},
                                                     {"payload layout", args.payload_layout}}));
  LONGWAVE_RETURN_IF_ERROR(CheckFinite("restore", {{"alpha", args.alpha}}));
  return CheckPayload("restore", *args.layout, args.segment, *args.payload_layout,
                      args.payload.size());
}

absl::Status CheckArgs(const DecodeUpdateArgs& args) {
  constexpr absl::string_view kOp = "decode_update";
  LONGWAVE_RETURN_IF_ERROR(
      CheckPointers(kOp, {{"layout", args.layout}, {"payload layout", args.payload_layout}}));
  switch (args.update) {
    case UpdateKind::kInner:
      LONGWAVE_RETURN_IF_ERROR(CheckPointers(kOp, {{"gradient", args.gradient}}));
      break;
    case UpdateKind::kNesterov:
      LONGWAVE_RETURN_IF_ERROR(
          CheckPointers(kOp, {{"theta", args.theta}, {"velocity", args.velocity}}));
      break;
    case UpdateKind::kLocal:
      LONGWAVE_RETURN_IF_ERROR(CheckPointers(
          kOp, {{"theta", args.theta}, {"signal", args.signal.a}, {"momentum", args.momentum}}));
      break;
    case UpdateKind::kSgd:
    case UpdateKind::kSign:
      LONGWAVE_RETURN_IF_ERROR(CheckPointers(kOp, {{"theta", args.theta}}));
      break;
    default:
      return InvalidArgument(kOp, ": unknown update rule ", static_cast<int>(args.update));
  }
  LONGWAVE_RETURN_IF_ERROR(CheckTransform(kOp, args.transform));
  LONGWAVE_RETURN_IF_ERROR(CheckFinite(
      kOp, {{"eta", args.eta}, {"mu", args.mu}, {"keep", args.keep}, {"beta", args.beta}}));
  return CheckPayload(kOp, *args.layout, args.segment, *args.payload_layout, args.payload.size());
}

absl::Status CheckArgs(const HashArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckPointers(
      "hash", {{"layout", args.layout}, {"theta", args.theta}, {"hashes", args.hashes.data()}}));
  const size_t segments = args.layout->segments().size();
  if (!args.hashes.empty() && args.segment_begin < segments &&
      args.hashes.size() <= segments - args.segment_begin) {
    return absl::OkStatus();
  }
  return InvalidArgument("hash: got ", args.hashes.size(), " segments from ", args.segment_begin,
                         ", wanted at least one of the ", segments, " of the layout");
}

absl::Status CheckArgs(const AdamWArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckFinite("adamw", {{"beta1", args.beta1},
                                                 {"1 - beta1", args.one_minus_beta1},
                                                 {"beta2", args.beta2},
                                                 {"1 - beta2", args.one_minus_beta2},
                                                 {"step size", args.step_size},
                                                 {"root scale", args.root_scale},
                                                 {"epsilon", args.epsilon},
                                                 {"keep", args.keep}}));
  if (args.count == 0) return absl::OkStatus();
  return CheckPointers(
      "adamw", {{"gradient", args.gradient}, {"m", args.m}, {"v", args.v}, {"theta", args.theta}});
}

absl::Status CheckArgs(const SquareSumArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckPointers("square_sum", {{"sum", args.sum}}));
  if (args.count == 0) return absl::OkStatus();
  return CheckPointers("square_sum", {{"x", args.x}});
}

absl::Status CheckArgs(const ScaleArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckFinite("scale", {{"scale", args.scale}}));
  if (args.count == 0) return absl::OkStatus();
  return CheckPointers("scale", {{"x", args.x}});
}

absl::Status CheckArgs(const BlendArgs& args) {
  LONGWAVE_RETURN_IF_ERROR(CheckFinite("blend", {{"alpha", args.alpha}}));
  if (args.begin > args.end) {
    return InvalidArgument("blend: elements from ", args.begin, " to ", args.end);
  }
  if (args.begin == args.end) return absl::OkStatus();
  LONGWAVE_RETURN_IF_ERROR(
      CheckPointers("blend", {{"theta", args.theta}, {"anchor", args.anchor}}));
  if (args.alpha == 0) return absl::OkStatus();
  return CheckPointers("blend", {{"base", args.base}});
}

}  // namespace longwave
