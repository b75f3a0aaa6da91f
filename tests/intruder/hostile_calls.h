#ifndef LONGWAVE_TESTS_INTRUDER_HOSTILE_CALLS_H_
#define LONGWAVE_TESTS_INTRUDER_HOSTILE_CALLS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/rng.h"
#include "google/protobuf/message.h"
#include "grpcpp/grpcpp.h"
#include "tests/intruder/guest.h"
#include "tests/intruder/mutation.h"

namespace longwave {

// Calls of a guest that says what it likes: every method of every service, messages that are right
// but for a field or two, and bytes that are no message. Between lies it registers, beats and
// reports as a member does, so that its lies come from every state that a member can be in.
class HostileCalls {
 public:
  // may_register: else it only has its certificate. All outlive this object.
  HostileCalls(const std::string& coordinator, const Guest* guest, bool may_register,
               Beliefs* beliefs, Rng* rng);

  // One call, and its answer taken in.
  void Act();

  // How often a method was answered how: "WorkerHeartbeat ok".
  const std::map<std::string, uint64_t>& answers() const { return answers_; }
  // Calls that were served though the caller has no right to them.
  const std::vector<std::string>& breaches() const { return breaches_; }

 private:
  using Message = google::protobuf::Message;

  void Register();
  void Beat();
  void ReadStatus();
  void CallAnything();
  void CallShard();
  // The request, changed now and then; the answer stays as it is where there is none.
  grpc::Status Call(const std::string& service, const std::string& method, Message* request,
                    Message* response, bool mutates);
  grpc::Status CallRaw(grpc::Channel& channel, const std::string& path, const std::string& request,
                       std::string* response);
  uint32_t Number() { return Odd32(*rng_, *beliefs_); }

  const Guest* const guest_;
  const bool may_register_;
  Beliefs* const beliefs_;
  Rng* const rng_;
  const std::shared_ptr<grpc::Channel> coordinator_;
  std::map<std::string, std::shared_ptr<grpc::Channel>> shards_;  // by address
  std::map<std::string, uint64_t> answers_;
  std::vector<std::string> breaches_;
};

}  // namespace longwave

#endif  // LONGWAVE_TESTS_INTRUDER_HOSTILE_CALLS_H_
