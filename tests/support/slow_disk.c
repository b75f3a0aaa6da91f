// Preloaded into a process, this makes the disk below the folder SLOW_DISK a slow one: it takes SLOW_DISK_BYTES_PER_S, in the
// order of the writes, whichever file they are of. A write returns at once while less than SLOW_DISK_CACHE_BYTES wait for
// the disk (the system's cache), and waits for room otherwise. A sync of a file returns once the disk has taken all that was
// written before the call (what a journalling file system's commit may have to write first, too). The real write and the
// real sync take place as well, so that the disk is never faster than the real one. While the file SLOW_DISK_HANGS exists,
// nothing of the folder returns: writes, syncs, new files, renames and removals.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static double free_at;  // seconds: the disk has taken everything by then

static double Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void SleepFor(double seconds) {
  if (seconds <= 0) return;
  struct timespec left = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
  while (nanosleep(&left, &left) != 0) {
  }
}

static double NumberIn(const char* variable, double otherwise) {
  const char* const text = getenv(variable);
  return text == NULL ? otherwise : atof(text);
}

static int IsBelow(const char* path) {
  const char* const folder = getenv("SLOW_DISK");
  return folder != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

static int IsFileBelow(int file) {
  char link[64], path[PATH_MAX + 1];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, PATH_MAX);
  if (length < 0) return 0;
  path[length] = '\0';
  return IsBelow(path);
}

static void WaitWhileItHangs(void) {
  const char* const hangs = getenv("SLOW_DISK_HANGS");
  while (hangs != NULL && access(hangs, F_OK) == 0) SleepFor(0.005);
}

// Queues bytes for the disk, and waits for room in the cache.
static void Take(double bytes) {
  const double rate = NumberIn("SLOW_DISK_BYTES_PER_S", 200e6);
  const double cached = NumberIn("SLOW_DISK_CACHE_BYTES", 256e6) / rate;
  WaitWhileItHangs();
  pthread_mutex_lock(&mutex);
  const double now = Now();
  if (free_at < now) free_at = now;
  free_at += bytes / rate;
  const double wait = free_at - now - cached;
  pthread_mutex_unlock(&mutex);
  SleepFor(wait);
}

static void AwaitAll(void) {
  WaitWhileItHangs();
  pthread_mutex_lock(&mutex);
  const double wait = free_at - Now();
  pthread_mutex_unlock(&mutex);
  SleepFor(wait);
}

#define REAL(name, type, arguments) \
  static type(*real) arguments;     \
  if (real == NULL) real = (type(*) arguments)dlsym(RTLD_NEXT, #name)

ssize_t write(int file, const void* bytes, size_t count) {
  REAL(write, ssize_t, (int, const void*, size_t));
  if (IsFileBelow(file)) Take((double)count);
  return real(file, bytes, count);
}

ssize_t writev(int file, const struct iovec* pieces, int count) {
  REAL(writev, ssize_t, (int, const struct iovec*, int));
  double bytes = 0;
  for (int i = 0; i < count; ++i) bytes += (double)pieces[i].iov_len;
  if (IsFileBelow(file)) Take(bytes);
  return real(file, pieces, count);
}

int fdatasync(int file) {
  REAL(fdatasync, int, (int));
  if (IsFileBelow(file)) AwaitAll();
  return real(file);
}

int fsync(int file) {
  REAL(fsync, int, (int));
  if (IsFileBelow(file)) AwaitAll();
  return real(file);
}

int rename(const char* from, const char* to) {
  REAL(rename, int, (const char*, const char*));
  if (IsBelow(from)) WaitWhileItHangs();
  return real(from, to);
}

int unlink(const char* path) {
  REAL(unlink, int, (const char*));
  if (IsBelow(path)) WaitWhileItHangs();
  return real(path);
}

static mode_t ModeOf(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

int open(const char* path, int flags, ...) {
  REAL(open, int, (const char*, int, ...));
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  if ((flags & O_CREAT) != 0 && IsBelow(path)) WaitWhileItHangs();
  return real(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return open(path, flags, mode);
}
