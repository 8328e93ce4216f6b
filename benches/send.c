/* The least that a client can do to store objects: send them over kept connections, and wait for
 * each answer.
 *
 * send PORT SECONDS SIZE SOURCE < REQUESTS, where REQUESTS are the heads of signed PUT requests of
 * SIZE bytes, each ended by an empty line; every one gets a connection of its own and is sent again
 * and again. Bodies come out of SOURCE bytes of memory: 262144 stay in a processor's own cache,
 * 8388608 are as many as storlab's objects are made of. Prints the bytes of bodies, the requests
 * that ended, and user and system time in microseconds.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1024, PIECE = 256 << 10, HEADS = 1 << 20, ANSWER = 64 << 10 };

struct connection {
    int fd;
    const char *head;
    size_t length;  /* of the head */
    long long sent; /* of head and body */
    size_t from;    /* where in the source the body begins */
};

static char text[HEADS + 1], answer[ANSWER + 1], *source;
static struct connection connections[MOST];
static long long size, bytes, requests;
static size_t sources;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void die(const char *what) {
    fprintf(stderr, "send: %s\n", what);
    exit(1);
}

/* As much as the socket takes. Head and body go out together: of a small object, in one call. */
static void push(struct connection *one) {
    for (;;) {
        long long body = one->sent - (long long)one->length;
        if (body == size) return;
        struct iovec parts[2];
        size_t count = 0;
        if (body < 0) {
            parts[count++] = (struct iovec){(char *)one->head + one->sent, (size_t)-body};
            body = 0;
        }
        size_t at = (one->from + (size_t)body) % sources;
        size_t left = sources - at < PIECE ? sources - at : PIECE;
        if ((long long)left > size - body) left = (size_t)(size - body);
        parts[count++] = (struct iovec){source + at, left};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
        ssize_t taken = sendmsg(one->fd, &message, MSG_NOSIGNAL);
        if (taken < 0 && errno == EAGAIN) return;
        if (taken <= 0) die("the server closed a connection");
        one->sent += taken;
    }
}

/* An answer ends with its head here: a PUT has nothing else to say. */
static void hear(struct connection *one) {
    ssize_t got = recv(one->fd, answer, ANSWER, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) die("the server closed a connection");
    answer[got] = 0;
    if (strncmp(answer, "HTTP/1.1 200", 12) != 0 || strstr(answer, "\r\n\r\n") == NULL) die(answer);
    bytes += size;
    requests++;
    one->sent = 0;
    one->from = (one->from + PIECE) % sources;
}

static void open_connection(struct connection *one, int port, int poll) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    one->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(one->fd, (struct sockaddr *)&address, sizeof address) != 0) die("cannot connect");
    setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(one->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = one};
    epoll_ctl(poll, EPOLL_CTL_ADD, one->fd, &event);
}

static long long microseconds(struct timeval time) {
    return time.tv_sec * 1000000LL + time.tv_usec;
}

int main(int count, char **given) {
    if (count != 5) die("usage: send PORT SECONDS SIZE SOURCE < REQUESTS");
    text[fread(text, 1, HEADS, stdin)] = 0;
    size = atoll(given[3]);
    sources = (size_t)atoll(given[4]);
    source = aligned_alloc(4096, sources);
    for (size_t at = 0; at < sources; at++) source[at] = (char)random();
    int poll = epoll_create1(0), port = atoi(given[1]), made = 0;
    for (char *at = text, *end; made < MOST && (end = strstr(at, "\r\n\r\n")); at = end + 4) {
        struct connection one = {.head = at, .length = (size_t)(end + 4 - at)};
        one.from = (size_t)made * PIECE % sources;
        connections[made] = one;
        open_connection(&connections[made++], port, poll);
    }
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (double until = seconds() + atof(given[2]); seconds() < until;) {
        struct epoll_event events[64];
        int ready = epoll_wait(poll, events, 64, 100);
        for (int number = 0; number < ready; number++) {
            struct connection *one = events[number].data.ptr;
            if (events[number].events & EPOLLIN) hear(one);
            push(one);
        }
    }
    getrusage(RUSAGE_SELF, &after);
    printf("%lld %lld %lld %lld\n", bytes, requests,
           microseconds(after.ru_utime) - microseconds(before.ru_utime),
           microseconds(after.ru_stime) - microseconds(before.ru_stime));
    return 0;
}
