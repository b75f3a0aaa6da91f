# filled in below
set(LONGWAVE_CUDA_FOUND OFF)
