#include "cli/config_schema.h"

#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/config/config_keys.h"

namespace longwave {
namespace {

using Json = nlohmann::ordered_json;

Json ReferenceTo(const std::string& name) {
  return {{"$ref", absl::StrCat("#/definitions/", name)}};
}

Json SchemaOf(const ConfigKey& key) {
  Json schema = Json::parse(key.schema);
  schema["default"] = key.is_text || schema.contains("enum") ? Json(key.default_value)
                                                             : Json::parse(key.default_value);
  schema["description"] = absl::StrCat(key.meaning, " (", key.wanted, ")");
  return schema;
}

}  // namespace

std::string ConfigSchema() {
  // By section; "" is the whole. Sections may nest or be written with dots, so each accepts every
  // suffix of its keys.
  std::map<std::string, Json> sections;
  Json definitions = Json::object();
  for (const ConfigKey& key : ConfigKeys()) {
    definitions[key.name] = SchemaOf(key);
    for (std::string section = key.name; !section.empty();) {
      const size_t dot = section.rfind('.');
      section.resize(dot == std::string::npos ? 0 : dot);
      Json& properties = sections[section];
      const size_t begin = section.empty() ? 0 : section.size() + 1;
      properties[key.name.substr(begin)] = ReferenceTo(key.name);
      for (size_t end = key.name.find('.', begin); end != std::string::npos;
           end = key.name.find('.', end + 1)) {
        properties[key.name.substr(begin, end - begin)] = ReferenceTo(key.name.substr(0, end));
      }
    }
  }
  const auto object = [](const Json& properties) -> Json {
    return {{"type", "object"}, {"additionalProperties", false}, {"properties", properties}};
  };
  for (const auto& [section, properties] : sections) {
    if (!section.empty()) definitions[section] = object(properties);
  }
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                 {"title", "A run's configuration of Longwave"}};
  schema.update(object(sections[""]));
  schema["definitions"] = definitions;
  return schema.dump(2) + "\n";
}

}  // namespace longwave
