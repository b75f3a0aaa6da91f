#ifndef LONGWAVE_WORKER_DATA_HELD_OUT_H_
#define LONGWAVE_WORKER_DATA_HELD_OUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/data/token_piece.h"

namespace longwave {

// Removes from the training part, the first `train_count` tokens of `pieces`, what is held out,
// too: a file equal to one that is held out, even in part. Where the held-out files are others than
// those to train on (`is_apart`), also the beginning or end of a file that is equal to one of them.
// Returns the tokens of the training part that are left; `left_out` gets a line for each removal.
uint64_t RemoveHeldOut(std::vector<TokenPiece>* pieces, uint64_t train_count, bool is_apart,
                       std::vector<std::string>* left_out);

}  // namespace longwave

#endif  // LONGWAVE_WORKER_DATA_HELD_OUT_H_
