// Linked into the tests that use ZeroMQ; read by ThreadSanitizer's runtime alone.
//
// libzmq comes from the distribution without instrumentation. Its threads hand messages over
// through lock-free queues whose atomics ThreadSanitizer does not see, so that each hand-over looks
// like a race; also of what libsodium has decrypted on them. Ours at the seam: ReleasePayload runs
// on libzmq's thread and frees what the sender made.
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libzmq.so\n"
         "called_from_lib:libsodium.so\n"
         "race:longwave::*ReleasePayload\n";
}
