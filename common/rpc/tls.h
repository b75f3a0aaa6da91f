#ifndef LONGWAVE_COMMON_RPC_TLS_H_
#define LONGWAVE_COMMON_RPC_TLS_H_

#include <memory>
#include <optional>
#include <string>

#include "common/security/identity.h"
#include "grpcpp/grpcpp.h"

namespace longwave {

// Private to this folder: gRPC's credentials from ours.

// Of a client with the credentials of a folder, whose files are followed as they change. The other
// end has to show a certificate of the folder's authority that names a `server` (of which index or
// name it may be any). An empty folder: plain text.
std::shared_ptr<grpc::ChannelCredentials> ClientCredentials(const std::string& folder, Role server);

// Of one that has no certificate but knows the authority, given as PEM.
std::shared_ptr<grpc::ChannelCredentials> JoiningCredentials(const std::string& authority,
                                                             Role server);
// Of one that does not even know whom to trust, and tells nothing.
std::shared_ptr<grpc::ChannelCredentials> AskingCredentials();

// Of a server: certificates are asked for, and verified with each call (see CallGuard), so that who
// shows none, a bad one, or one that ends meanwhile, hears a sentence, and so does the log.
std::shared_ptr<grpc::ServerCredentials> ServerCredentials(const std::string& folder);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_TLS_H_
