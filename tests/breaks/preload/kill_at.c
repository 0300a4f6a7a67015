/* Kills its process with SIGKILL at the n-th change of a file under a folder: in the middle of a write, before anything else.
 *
 * kill_at_arm(folder, n) begins to count; kill_at_count() says how many changes there were since. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static char under[PATH_MAX];
static atomic_int armed, counted;

void kill_at_arm(const char *folder, int at) {
    snprintf(under, sizeof under, "%s/", folder);
    counted = 0;
    armed = at;
}

int kill_at_count(void) { return counted; }

static int below(const char *path) { return path && armed && strncmp(path, under, strlen(under)) == 0; }

static int fd_below(int fd) {
    char link[64], path[PATH_MAX];
    if (!armed) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

/* Whether this change is the one. */
static int due(void) { return atomic_fetch_add(&counted, 1) + 1 == armed; }

static void killed(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    if (fd_below(fd) && due()) { real(fd, data, size / 2); killed(); }
    return real(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    if (fd_below(fd) && due()) { if (count > 1) real(fd, parts, count / 2); killed(); }
    return real(fd, parts, count);
}

#define POSITIONED(name, offset) ssize_t name(int fd, const void *data, size_t size, offset at) { \
    REAL(ssize_t, #name, int, const void *, size_t, offset); \
    if (fd_below(fd) && due()) { real(fd, data, size / 2, at); killed(); } \
    return real(fd, data, size, at); }
POSITIONED(pwrite, off_t)
POSITIONED(pwrite64, off64_t)

#define ON_FD(name) int name(int fd) { REAL(int, #name, int); if (fd_below(fd) && due()) killed(); return real(fd); }
ON_FD(fsync)
ON_FD(fdatasync)

#define CUT(name, offset) int name(int fd, offset size) { \
    REAL(int, #name, int, offset); if (fd_below(fd) && due()) killed(); return real(fd, size); }
CUT(ftruncate, off_t)
CUT(ftruncate64, off64_t)

#define ON_PATH(name) int name(const char *path) { REAL(int, #name, const char *); if (below(path) && due()) killed(); return real(path); }
ON_PATH(unlink)
ON_PATH(rmdir)

int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    if (below(path) && due()) killed();
    return real(path, mode);
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    if (below(to) && due()) killed();
    return real(from, to);
}

int unlinkat(int dir, const char *path, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    if (below(path) && due()) killed();
    return real(dir, path, flags);
}

#define OPENS(name) int name(const char *path, int flags, ...) { \
    REAL(int, #name, const char *, int, ...); \
    va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more); \
    if ((flags & (O_CREAT | O_TRUNC)) && below(path) && due()) killed(); \
    return real(path, flags, mode); }
OPENS(open)
OPENS(open64)
