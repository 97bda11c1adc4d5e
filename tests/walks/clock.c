/* The clock of one process: the seconds in the file CLOCK_FILE are added to the time of day.
 *     cc -shared -fPIC -o clock.so clock.c
 *     CLOCK_FILE=FILE LD_PRELOAD=./clock.so PROGRAM */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    const char *name = getenv("CLOCK_FILE");
    if (result != 0 || clock != CLOCK_REALTIME || name == NULL) return result;
    char text[32] = {0};
    int file = open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0) return result;
    if (read(file, text, sizeof text - 1) > 0) now->tv_sec += atol(text);
    close(file);
    return result;
}
