// Preloaded into a process, this has one of its reads go wrong, as with a bad memory or controller: the WRONG_READ_NUMBERth
// (counted from 1) of a file whose path contains WRONG_READ gets one bit flipped, in the byte at WRONG_READ_BYTE of what was
// read, or in the middle. The disk stays right. Each read of such a file adds a letter to the file that WRONG_READ_LOG names:
// "." or, for the wrong one, "x".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_long reads;

static long NumberIn(const char* variable, long otherwise) {
  const char* const text = getenv(variable);
  return text == NULL ? otherwise : atol(text);
}

static void Pass(int file, void* bytes, ssize_t got) {
  const char* const wanted = getenv("WRONG_READ");
  char link[64], path[PATH_MAX + 1];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, PATH_MAX);
  if (wanted == NULL || got <= 0 || length < 0) return;
  path[length] = '\0';
  if (strstr(path, wanted) == NULL) return;
  const int is_wrong = atomic_fetch_add(&reads, 1) + 1 == NumberIn("WRONG_READ_NUMBER", 0);
  if (is_wrong) ((unsigned char*)bytes)[NumberIn("WRONG_READ_BYTE", got / 2) % got] ^= 1;
  const int log = open(getenv("WRONG_READ_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (log < 0 || write(log, is_wrong ? "x" : ".", 1) != 1) abort();
  close(log);
}

ssize_t pread(int file, void* bytes, size_t count, off_t offset) {
  static ssize_t (*real)(int, void*, size_t, off_t);
  if (real == NULL) real = (ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, "pread");
  const ssize_t got = real(file, bytes, count, offset);
  Pass(file, bytes, got);
  return got;
}

ssize_t pread64(int file, void* bytes, size_t count, off64_t offset) { return pread(file, bytes, count, offset); }

size_t fread(void* bytes, size_t size, size_t count, FILE* file) {
  static size_t (*real)(void*, size_t, size_t, FILE*);
  if (real == NULL) real = (size_t(*)(void*, size_t, size_t, FILE*))dlsym(RTLD_NEXT, "fread");
  const size_t got = real(bytes, size, count, file);
  Pass(fileno(file), bytes, (ssize_t)(got * size));
  return got;
}
