#ifndef LONGWAVE_CLI_CONFIG_SCHEMA_H_
#define LONGWAVE_CLI_CONFIG_SCHEMA_H_

#include <string>

namespace longwave {

// The configuration's keys as a JSON Schema (draft 07), for editors and other programs: names,
// types, ranges, defaults and meanings, from the parser's table. Relations between keys are left
// out.
std::string ConfigSchema();

}  // namespace longwave

#endif  // LONGWAVE_CLI_CONFIG_SCHEMA_H_
