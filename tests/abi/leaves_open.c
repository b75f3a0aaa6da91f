// Exits in the middle of a run, with its member open: nothing may crash or hang.
#include <longwave.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int64_t shape[] = {64};
  const lw_tensor tensor = {.name = "weights", .shape = shape, .dimensions = 1};
  const lw_options options = {.size = sizeof options, .coordinator = argv[1], .name = "one"};
  lw_member* member = NULL;
  if (lw_join(&options, &tensor, 1, &member) < 0) return 3;
  static float theta[64];
  const lw_arrays arrays = {.size = sizeof arrays, .theta = theta, .device = LW_CPU};
  if (lw_begin(member, &arrays) < 0) return 4;
  if (lw_step(member, 0.5, 1) < 0) return 5;
  exit(0);
}
