// A whole worker in C: fits a linear model, together with the other workers of the run.
//   linear_model HOST:PORT NAME [STATE_DIR]
#include <inttypes.h>
#include <longwave.h>
#include <stdio.h>
#include <stdlib.h>

enum { kFeatures = 64, kRows = 8 };

// Between -0.5 and 0.5; no two workers see the same rows.
static double Sample(uint64_t worker, uint64_t step, uint64_t row, uint64_t feature) {
  return (double)((worker * 89 + step * 31 + row * 57 + feature * feature * 7 + 3) % 101) / 101 -
         0.5;
}

// One step of gradient descent on the mean squared error; returns that.
static double Step(float* theta, const lw_figures* at) {
  double loss = 0;
  float gradient[kFeatures] = {0};
  for (uint64_t row = 0; row < kRows; ++row) {
    double error = 0;
    for (uint64_t i = 0; i < kFeatures; ++i)
      error += Sample(at->worker, at->step, row, i) * (theta[i] - (i % 3 == 0 ? 1 : -0.5));
    loss += error * error / kRows;
    for (uint64_t i = 0; i < kFeatures; ++i)
      gradient[i] += (float)(error * Sample(at->worker, at->step, row, i) / kRows);
  }
  for (int i = 0; i < kFeatures; ++i) theta[i] -= (float)at->learning_rate * gradient[i];
  return loss;
}

static int Fail(lw_member* member, const char* what) {
  fprintf(stderr, "error: %s: %s\n", what, lw_error());
  lw_close(member);
  return 1;
}

int main(int argc, char** argv) {
  if (argc < 3 || lw_abi() != LW_ABI) return 2;
  const int64_t shape[] = {kFeatures};
  const lw_tensor tensor = {.name = "weights", .shape = shape, .dimensions = 1};
  const lw_options options = {.size = sizeof options,
                              .coordinator = argv[1],
                              .name = argv[2],
                              .state_dir = argc > 3 ? argv[3] : NULL};
  lw_member* member = NULL;
  if (lw_join(&options, &tensor, 1, &member) < 0) return Fail(member, "lw_join");
  float theta[kFeatures] = {0};  // flat; lw_offset(member, 0) is 0
  const lw_arrays arrays = {.size = sizeof arrays, .theta = theta, .device = LW_CPU};
  lw_figures figures = {.size = sizeof figures};
  int events = lw_begin(member, &arrays);
  while (events >= 0 && !(events & LW_OVER)) {
    if (lw_stats(member, &figures) < 0) return Fail(member, "lw_stats");
    const double loss = Step(theta, &figures);
    events = lw_step(member, loss, kRows);
  }
  if (lw_finish(member) < 0) return Fail(member, "the run");
  if (events < 0) return Fail(member, "training");
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a of theta's bytes
  for (size_t i = 0; i < sizeof theta; ++i)
    hash = (hash ^ ((const unsigned char*)theta)[i]) * 0x100000001b3;
  printf("theta %016" PRIx64 " step %" PRIu64 "\n", hash, figures.step);
  lw_close(member);
  return 0;
}
