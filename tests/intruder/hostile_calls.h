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

// Arbitrary calls of a guest: every method of every service, messages that are right except for a
// field or two, and bytes that are no message. In between the guest registers, sends heartbeats and
// reports like a member, so that its calls come from every state of a member.
class HostileCalls {
 public:
  // may_register: else it only has its certificate. All outlive this object.
  HostileCalls(const std::string& coordinator, const Guest* guest, bool may_register,
               Beliefs* beliefs, Rng* rng);

  // Makes one call, and takes in its answer.
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
  // Changes the request now and then. Without an answer `response` is unchanged.
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
