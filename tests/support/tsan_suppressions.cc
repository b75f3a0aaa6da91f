// Linked into the tests that use ZeroMQ; read by ThreadSanitizer's runtime alone.
//
// libzmq comes from the distribution without instrumentation. Its threads pass messages through
// lock-free queues whose atomics ThreadSanitizer does not see, so each pass looks like a race. The
// same holds for libsodium's decrypted bytes. Our function at the border: ReleasePayload runs on
// libzmq's thread and frees the sender's memory.
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libzmq.so\n"
         "called_from_lib:libsodium.so\n"
         "race:longwave::*ReleasePayload\n";
}
