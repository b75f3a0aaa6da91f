#ifndef LONGWAVE_TESTS_EMULATION_REFUSE_H_
#define LONGWAVE_TESTS_EMULATION_REFUSE_H_

#include <string>

namespace longwave::emulation {

// A place in a device source.
struct Where {
  const char* file = nullptr;
  int line = 0;
};

// "decode.cu:41", without the folders.
std::string Text(const Where& where);

// Ends the process where a GPU would hang or give wrong numbers. The sentence goes to standard
// error, with the running block and thread.
[[noreturn]] void Refuse(const std::string& sentence);

}  // namespace longwave::emulation

#endif  // LONGWAVE_TESTS_EMULATION_REFUSE_H_
