#ifndef LONGWAVE_COMMON_RPC_CONVERT_H_
#define LONGWAVE_COMMON_RPC_CONVERT_H_

#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/admission_records.h"
#include "common/rpc/message_fields.h"
#include "longwave/v1/coordinator.rpc.h"
#include "longwave/v1/shard.rpc.h"

namespace longwave {

// Between the values that clients and handlers have, and the messages of proto/. Private to this
// folder and its tests, since it names protobuf.

// Limits that a proto's options cannot state. InvalidArgument: a worker that calls itself lost or
// joining.
inline absl::Status CheckMore(const Message&) { return absl::OkStatus(); }
absl::Status CheckMore(const v1::WorkerHeartbeatRequest& message);

// The record of a message. InvalidArgument: the message breaks a limit that its proto states
// (limits.proto), CheckMore's, or has a manifest that does not validate or lacks the hash that it
// claims.
template <typename MessageType>
auto FromProto(const MessageType& message) {
  using Value = decltype(RecordOf(message));
  const absl::Status status = CheckMore(message);
  return status.ok() ? ReadMessage<Value>(message) : absl::StatusOr<Value>(status);
}

// All but the token, which goes before it in the call's metadata.
v1::JoinRequest ToProto(const JoinWish& value);
absl::StatusOr<JoinWish> FromProto(const v1::JoinRequest& message);

// InvalidArgument: a subject that is none.
absl::StatusOr<v1::CreateTokenRequest> ToProto(const TokenWish& value);
absl::StatusOr<TokenWish> FromProto(const v1::CreateTokenRequest& message);

// The request of a call with these values: a record, or the request's fields.
template <typename Request, typename... Values>
absl::StatusOr<Request> ToRequest(const Values&... values) {
  if constexpr (requires { ToProto(values...); }) {
    return ToProto(values...);
  } else if constexpr (sizeof...(Values) == 1 && (Record<Values> && ...)) {
    return WriteMessage<Request>(values...);
  } else {
    Request request;
    WriteAll(&request, values...);
    return request;
  }
}
template <typename... Values, typename Request>
absl::StatusOr<std::tuple<Values...>> FromRequest(const Request& request) {
  if constexpr (requires { RecordOf(request); }) {
    return FromProto(request);
  } else {
    FieldReader reader(request.GetDescriptor()->name());
    std::tuple<Values...> values;
    std::apply([&](auto&... value) { reader.ReadAll(request, &value...); }, values);
    if (!reader.status().ok()) return reader.status();
    return values;
  }
}

// The response to a call with this answer: a record, or the response's one field.
template <typename Response, typename Value>
Response ToResponse(const Value& value) {
  Response response;
  if constexpr (Record<Value>) {
    Write(value, &response);
  } else {
    WriteAll(&response, value);
  }
  return response;
}
// Answer: a StatusOr of the value.
template <typename Answer, typename Response>
Answer FromResponse(const Response& response) {
  if constexpr (requires { RecordOf(response); }) {
    return FromProto(response);
  } else {
    typename Answer::value_type value{};
    FieldReader reader(response.GetDescriptor()->name());
    reader.ReadAll(response, &value);
    if (!reader.status().ok()) return reader.status();
    return value;
  }
}

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_CONVERT_H_
