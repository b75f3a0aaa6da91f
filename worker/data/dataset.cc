#include "worker/data/dataset.h"

#include <utility>

#include "common/base/status_macros.h"
#include "worker/data/corpus.h"
#include "worker/data/images.h"

namespace longwave {

absl::StatusOr<std::unique_ptr<Dataset>> LoadDataset(const DataSection& data,
                                                     const ModelSection& model) {
  if (data.kind == "images") {
    LONGWAVE_ASSIGN_OR_RETURN(Images images, Images::Load(data, model));
    return std::make_unique<Images>(std::move(images));
  }
  LONGWAVE_ASSIGN_OR_RETURN(Corpus corpus, Corpus::Load(data, model));
  return std::make_unique<Corpus>(std::move(corpus));
}

absl::Status CheckDataset(const DataSection& data, const ModelSection& model) {
  if (data.kind == "images") return Images::Load(data, model).status();
  return CheckCorpus(data, model);
}

}  // namespace longwave
