#ifndef LONGWAVE_COMMON_RPC_TLS_H_
#define LONGWAVE_COMMON_RPC_TLS_H_

#include <memory>
#include <string>

#include "common/security/identity.h"
#include "grpcpp/grpcpp.h"

namespace longwave {

// Private to this folder: gRPC's credentials from ours.

// For a client with a folder of credentials, reread when its files change. The server must show a
// certificate of the folder's authority with the role `server`, of any index or name. An empty
// folder: plain text.
std::shared_ptr<grpc::ChannelCredentials> ClientCredentials(const std::string& folder, Role server);

// For a client without a certificate that knows the authority, given as PEM.
std::shared_ptr<grpc::ChannelCredentials> JoiningCredentials(const std::string& authority,
                                                             Role server);
// For a client that accepts any server, and sends no secrets.
std::shared_ptr<grpc::ChannelCredentials> AskingCredentials();

// For a server. Each call, not the handshake, verifies the client's certificate (see CallGuard): a
// client with a missing, bad or expired certificate then receives a reason, and the log names it.
std::shared_ptr<grpc::ServerCredentials> ServerCredentials(const std::string& folder);

}  // namespace longwave

#endif  // LONGWAVE_COMMON_RPC_TLS_H_
