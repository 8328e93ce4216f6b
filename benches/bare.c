// The floor beneath every load generator: io_uring with a ring, registered buffers and files, and
// nothing else. No latency, no statistics, no payload. Arguments: path, block size, queue depth,
// batch, seconds, bytes of the file, read (1) or write (0), random (1) or in order (0), direct (1).
// Prints the operations done, and the time in s. Source: io_uring_setup(2), io_uring_enter(2).
#include <err.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define load(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void *map(size_t bytes, int fd, off_t at)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE;
	void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, at);
	if (start == MAP_FAILED)
		err(1, "mmap");
	return start;
}

static void attach(int ring, unsigned what, void *arg, unsigned count)
{
	if (syscall(SYS_io_uring_register, ring, what, arg, count) < 0)
		err(1, "io_uring_register %u", what);
}

int main(int argc, char **argv)
{
	if (argc != 10)
		errx(2, "see the head of the source");
	size_t block = strtoull(argv[2], NULL, 10), size = strtoull(argv[6], NULL, 10);
	unsigned depth = atoi(argv[3]), batch = atoi(argv[4]);
	int reads = atoi(argv[7]), random_ = atoi(argv[8]), direct = atoi(argv[9]);
	double seconds = atof(argv[5]);
	int fd = open(argv[1], (reads ? O_RDONLY | O_NOATIME : O_WRONLY) | (direct ? O_DIRECT : 0));
	if (fd < 0)
		err(1, "%s", argv[1]);

	struct io_uring_params p = { .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN };
	int ring = syscall(SYS_io_uring_setup, depth, &p);
	if (ring < 0)
		err(1, "io_uring_setup");
	size_t sq_bytes = p.sq_off.array + p.sq_entries * sizeof(unsigned);
	size_t cq_bytes = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	char *q = map(sq_bytes > cq_bytes ? sq_bytes : cq_bytes, ring, IORING_OFF_SQ_RING);
	struct io_uring_sqe *sqes = map(p.sq_entries * sizeof *sqes, ring, IORING_OFF_SQES);
	struct io_uring_cqe *cqes = (void *)(q + p.cq_off.cqes);
	unsigned *sq_tail = (void *)(q + p.sq_off.tail), *array = (void *)(q + p.sq_off.array);
	unsigned *cq_head = (void *)(q + p.cq_off.head), *cq_tail = (void *)(q + p.cq_off.tail);
	unsigned sq_mask = p.sq_entries - 1, cq_mask = p.cq_entries - 1;

	// On huge pages and touched, as the buffers of the engine are.
	size_t huge = 2 << 20, bytes = (depth * block + 2 * huge - 1) / huge * huge;
	char *memory = map(bytes, -1, 0);
	char *buffers = (char *)(((uintptr_t)memory + huge - 1) / huge * huge);
	madvise(buffers, bytes - huge, MADV_HUGEPAGE);
	struct iovec vectors[depth];
	unsigned *free_ = calloc(depth, sizeof *free_), frees = depth;
	for (unsigned i = 0; i < depth; i++) {
		vectors[i] = (struct iovec){ buffers + i * block, block };
		memset(vectors[i].iov_base, i + 1, block);
		free_[i] = i;
	}
	for (unsigned i = 0; i < p.sq_entries; i++)
		array[i] = i;
	attach(ring, IORING_REGISTER_BUFFERS, vectors, depth);
	attach(ring, IORING_REGISTER_FILES, &fd, 1);
	struct io_uring_rsrc_update self = { .offset = -1U, .data = ring };
	attach(ring, IORING_REGISTER_RING_FDS, &self, 1);

	uint64_t state = 88172645463325252ULL, blocks = size / block, done = 0, next = 0;
	double start = now(), end = start;
	for (unsigned turn = 0, busy = 1; busy; turn++) {
		unsigned fresh = 0, tail = *sq_tail;
		for (; fresh < batch && frees; fresh++, tail++) {
			struct io_uring_sqe *e = &sqes[tail & sq_mask];
			unsigned slot = free_[--frees];
			state ^= state << 13, state ^= state >> 7, state ^= state << 17;
			uint64_t at = random_ ? ((__uint128_t)state * blocks) >> 64 : next++ % blocks;
			memset(e, 0, sizeof *e);
			e->opcode = reads ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
			e->flags = IOSQE_FIXED_FILE;
			e->addr = (uintptr_t)vectors[slot].iov_base;
			e->len = block;
			e->off = at * block;
			e->buf_index = slot;
			e->user_data = slot;
		}
		store(sq_tail, tail);
		unsigned flags = IORING_ENTER_REGISTERED_RING | IORING_ENTER_GETEVENTS;
		long took = syscall(SYS_io_uring_enter, self.offset, fresh, frees ? 0 : 1, flags, NULL, 0);
		if (took != fresh)
			err(1, "io_uring_enter took %ld of %u", took, fresh);
		unsigned head = *cq_head, there = load(cq_tail);
		for (; head != there; head++, done++) {
			struct io_uring_cqe *c = &cqes[head & cq_mask];
			if (c->res != (int)block)
				errx(1, "an operation ended with %d", c->res);
			free_[frees++] = c->user_data;
		}
		store(cq_head, head);
		if (turn % 64 == 0)
			busy = (end = now()) - start < seconds;
	}
	printf("%llu %.9f\n", (unsigned long long)done, end - start);
	return 0;
}
