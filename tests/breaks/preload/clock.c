/* Shifts the wall clock of its process by the seconds in the file CLOCK_SHIFT, which may change at any time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
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

/* A deadline of the shifted clock is one of the kernel's, which is not shifted; one of the monotonic clock is small. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    struct timespec kernels = *until;
    if (!real) {
        /* a plain dlsym finds the form of before glibc 2.3.2 first */
        void *found = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
        if (!found) found = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
        real = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))found;
    }
    if (kernels.tv_sec > 1000000000) kernels.tv_sec -= shift();
    return real(cond, mutex, &kernels);
}
