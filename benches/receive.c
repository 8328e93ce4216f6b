/* The least that a client can do: ask for objects over kept connections and throw the bytes away.
 *
 * receive PORT SECONDS < REQUESTS, where REQUESTS are whole signed GET requests, each ended by an
 * empty line; every one gets a connection of its own and is sent again and again. Prints the bytes
 * of bodies, the requests that ended, and user and system time in microseconds.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1024, BUFFER = 256 << 10, HEADS = 1 << 20 };

struct connection {
    int fd;
    const char *request;
    size_t length;
    long long left; /* of the body; -1 while the head is awaited */
};

static char buffer[BUFFER + 1], text[HEADS + 1];
static struct connection connections[MOST];

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static long long microseconds(struct timeval time) {
    return time.tv_sec * 1000000LL + time.tv_usec;
}

static void die(const char *what) {
    fprintf(stderr, "receive: %s\n", what);
    exit(1);
}

static void ask(struct connection *one) {
    if (send(one->fd, one->request, one->length, 0) != (ssize_t)one->length) die("cannot send");
    one->left = -1;
}

/* What of `size` bytes in the buffer is body: all, or what follows the head. */
static long long begin_body(struct connection *one, ssize_t size) {
    buffer[size] = 0;
    char *end = strstr(buffer, "\r\n\r\n");
    char *length = strcasestr(buffer, "\r\ncontent-length:");
    if (strncmp(buffer, "HTTP/1.1 200", 12) != 0 || end == NULL || length == NULL) die(buffer);
    one->left = atoll(length + 17);
    return buffer + size - (end + 4);
}

static void open_connection(struct connection *one, int port, int poll) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    one->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(one->fd, (struct sockaddr *)&address, sizeof address) != 0) die("cannot connect");
    setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
    epoll_ctl(poll, EPOLL_CTL_ADD, one->fd, &event);
    ask(one);
}

int main(int count, char **given) {
    if (count != 3) die("usage: receive PORT SECONDS < REQUESTS");
    size_t size = fread(text, 1, HEADS, stdin);
    text[size] = 0;
    int poll = epoll_create1(0), port = atoi(given[1]), made = 0;
    for (char *at = text, *end; made < MOST && (end = strstr(at, "\r\n\r\n")); at = end + 4) {
        connections[made] = (struct connection){.request = at, .length = (size_t)(end + 4 - at)};
        open_connection(&connections[made++], port, poll);
    }
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    long long bytes = 0, requests = 0;
    for (double until = seconds() + atof(given[2]); seconds() < until;) {
        struct epoll_event events[64];
        int ready = epoll_wait(poll, events, 64, 100);
        for (int number = 0; number < ready; number++) {
            struct connection *one = events[number].data.ptr;
            ssize_t got = recv(one->fd, buffer, BUFFER, 0);
            if (got <= 0) die("the server closed a connection");
            long long body = one->left < 0 ? begin_body(one, got) : got;
            bytes += body;
            one->left -= body;
            if (one->left == 0) {
                requests++;
                ask(one);
            }
        }
    }
    getrusage(RUSAGE_SELF, &after);
    printf("%lld %lld %lld %lld\n", bytes, requests,
           microseconds(after.ru_utime) - microseconds(before.ru_utime),
           microseconds(after.ru_stime) - microseconds(before.ru_stime));
    return 0;
}
