/* The floor beneath readers of small files: threads that open, read and close one file after the
 * other, and do nothing with the bytes.
 *
 * files DIRECTORY SIZE THREADS PASSES reads all files in DIRECTORY, of SIZE bytes each. Prints the
 * bytes read, the time in microseconds, and user and system time in microseconds.
 */
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const char *directory;
static struct dirent **names;
static long files, size, passes, next;

static int is_file(const struct dirent *entry) {
    return entry->d_type == DT_REG;
}

static void *reader(void *unused) {
    char *buffer = aligned_alloc(4096, (size_t)size), path[4096];
    for (long turn; (turn = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED)) < files * passes;) {
        snprintf(path, sizeof path, "%s/%s", directory, names[turn % files]->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || pread(fd, buffer, (size_t)size, 0) != size) err(1, "%s", path);
        close(fd);
    }
    return unused;
}

static long long microseconds(struct timeval time) {
    return time.tv_sec * 1000000LL + time.tv_usec;
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000LL + time.tv_nsec / 1000;
}

int main(int count, char **given) {
    enum { MOST = 64 };
    pthread_t threads[MOST];
    if (count != 5 || atoi(given[3]) > MOST) errx(2, "see the head of the source");
    directory = given[1];
    files = scandir(directory, &names, is_file, alphasort);
    if (files < 1) errx(1, "no files in %s", directory);
    size = atol(given[2]), passes = atol(given[4]);
    long long begin = now();
    for (int number = 0; number < atoi(given[3]); number++)
        if (pthread_create(&threads[number], NULL, reader, NULL) != 0) err(1, "a thread");
    for (int number = 0; number < atoi(given[3]); number++) pthread_join(threads[number], NULL);
    long long took = now() - begin;
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("%ld %lld %lld %lld\n", files * passes * size, took, microseconds(used.ru_utime),
           microseconds(used.ru_stime));
    return 0;
}
