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

// What a GPU would answer with a hang or with wrong numbers ends here: the sentence goes to
// standard error, with the block and the thread that runs, and the process aborts.
[[noreturn]] void Refuse(const std::string& sentence);

}  // namespace longwave::emulation

#endif  // LONGWAVE_TESTS_EMULATION_REFUSE_H_
