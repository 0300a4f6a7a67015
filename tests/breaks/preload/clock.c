/* Shifts the wall clock of its process by the seconds in the file CLOCK_SHIFT, which may change at any time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static long shift(void) {
    static volatile const long *shared;
    if (!shared) {
        static const long none = 0;
        const char *path = getenv("CLOCK_SHIFT");
        int fd = path ? open(path, O_RDONLY) : -1;
        void *page = fd < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, fd, 0);
        shared = page == MAP_FAILED ? &none : (const long *)page;
    }
    return *shared;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, now);
    if (status == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += shift();
    return status;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec real;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &real);
    now->tv_sec = real.tv_sec;
    now->tv_usec = real.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into) {
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    if (into) *into = real.tv_sec;
    return real.tv_sec;
}
