#ifndef LONGWAVE_KERNELS_CUDA_JOBS_H_
#define LONGWAVE_KERNELS_CUDA_JOBS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/dct_stage.h"

namespace longwave::cuda {

// What the host hands to the kernels: plain structures with pointers into device memory.

// One tile, and where its parts are in the payload.
struct TileJob {
  uint64_t offset;              // of its first element in the flat arrays
  uint64_t coefficient_offset;  // of its first coefficient in the momentum
  uint32_t row_stride;
  uint32_t rows, cols;
  uint32_t rows_valid, cols_valid;
  uint32_t count;                            // coefficients sent
  uint64_t draw;                             // random and stride selection
  uint64_t scale_at, indices_at, values_at;  // bytes from the payload's start
  DctPlanView down, along;  // in the direction of the call; empty without a transform
  float norm;               // DctNorm
};

struct TileReport {
  double signal, momentum, sent;
  uint32_t finite;
};

struct EncodeLaunch {
  const TileJob* jobs;
  uint32_t tile_count;
  const void* signal_a;
  const void* signal_b;  // may be null
  float signal_scale;
  bool signal_is_bf16;
  float beta, alpha;
  float* momentum;
  uint8_t selection, codec;  // Selection, ValueCodec
  uint16_t scale_code_max;
  unsigned char* payload;  // begun: head written, the rest zero
  TileReport* reports;
};

struct RestoreLaunch {
  const TileJob* jobs;
  uint32_t tile_count;
  float alpha;
  float* momentum;
  uint8_t selection, codec;
  const unsigned char* payload;
};

struct DecodeUpdateLaunch {
  const TileJob* jobs;
  uint32_t tile_count;
  uint8_t selection, codec, update;  // update: UpdateKind
  float eta, mu, keep, beta;
  const unsigned char* payload;
  float* theta;
  float* velocity;
  float* gradient;
  float* momentum;
  const void* signal_a;
  const void* signal_b;
  float signal_scale;
  bool signal_is_bf16;
};

struct HashLaunch {
  const TileJob* jobs;
  uint32_t tile_count;
  const float* theta;
  unsigned long long* hash;  // zero before
};

// One block a tile, on `stream`. The result is that of the launch, not of the kernel.
cudaError_t Launch(const EncodeLaunch& launch, cudaStream_t stream);
cudaError_t Launch(const RestoreLaunch& launch, cudaStream_t stream);
cudaError_t Launch(const DecodeUpdateLaunch& launch, cudaStream_t stream);
cudaError_t Launch(const HashLaunch& launch, cudaStream_t stream);

}  // namespace longwave::cuda

#endif  // LONGWAVE_KERNELS_CUDA_JOBS_H_
