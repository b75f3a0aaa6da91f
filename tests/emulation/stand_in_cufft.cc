// A library in cuFFT's place. Version 12 makes no plan, as a real one does that the driver or the
// GPU does not suit.
extern "C" int cufftPlanMany(int* plan, int, int*, int*, int, int, int*, int, int, int, int batch) {
  constexpr int kInternalError = 5;
  if (STAND_IN_VERSION == 12) return kInternalError;
  *plan = batch;
  return 0;
}

extern "C" int cufftSetStream(int, void*) { return 0; }

extern "C" int cufftExecR2C(int plan, float* in, void*) {
  *in = static_cast<float>(100 * STAND_IN_VERSION + plan);
  return 0;
}
