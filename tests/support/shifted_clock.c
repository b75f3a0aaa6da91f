// Preloaded into a process, this has its wall clock go wrong: by as many seconds as the file says that SHIFTED_CLOCK names,
// an int64 that a test may change at any time. The monotonic clock stays right, as it does where a person sets the date.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static int64_t zero;
static volatile int64_t* shift = &zero;
static int (*real_clock_gettime)(clockid_t, struct timespec*);

__attribute__((constructor)) static void Open(void) {
  real_clock_gettime = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const char* const path = getenv("SHIFTED_CLOCK");
  const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void* const mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) shift = mapped;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  if (real_clock_gettime == NULL) Open();  // some library's constructor was first
  const int failed = real_clock_gettime(clock, now);
  if (failed == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *shift;
  return failed;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  struct timespec exact;
  const int failed = clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return failed;
}

time_t time(time_t* to) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to != NULL) *to = now.tv_sec;
  return now.tv_sec;
}
