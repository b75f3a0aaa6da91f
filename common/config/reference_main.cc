// Prints the reference of all keys: longwave-config-reference > docs/reference/configuration.md
#include <cstdio>

#include "common/config/config.h"

int main() { return std::fputs(longwave::ConfigReference().c_str(), stdout) < 0 ? 1 : 0; }
