// The floor beneath every load into GPU memory: one thread that makes the same calls and nothing else.
// No latency, no statistics. Arguments: what (cufile, batch, async, host, bounce, overlapped, copy),
// libcuda, libcufile ("-": none), path, block, depth, seconds, bytes of the file, direct (1), GPU.
// Reads at random offsets; copy only copies from pinned memory. Prints operations, the time in s, and
// user and system CPU in s, of all threads of the process. Declared from NVIDIA's cuFile API reference
// and CUDA driver API.
#include <dlfcn.h>
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MOST 128
#define CUDA(name, types, ...) check(name, ((int (*) types)symbol(cuda, name))(__VA_ARGS__))
#define CUFILE(name, types, ...) check(name, ((Status (*) types)symbol(cufile, name))(__VA_ARGS__).code)

typedef uint64_t Pointer;
typedef struct { int code, cuda; } Status;
typedef struct { int type; union { int fd; void *handle; } of; const void *operations; } Descriptor;
typedef struct {
	int mode;
	struct { void *base; off_t file, buffer; size_t size; } of;
	void *handle;
	int opcode;
	void *cookie;
} Entry;
typedef struct { void *cookie; int status; size_t done; } Event;

static void *cuda, *cufile;
static size_t block, blocks;
static unsigned depth;
static double until;
static int fd;
static Pointer device[MOST];
static char *pinned[MOST];
static void *stream[MOST], *file;
static uint64_t state = 88172645463325252ull;

static void *symbol(void *library, const char *name)
{
	void *found = library ? dlsym(library, name) : NULL;
	if (!found)
		errx(1, "no %s", name);
	return found;
}

static void check(const char *name, int code)
{
	if (code)
		errx(1, "%s: %d", name, code);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static off_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % blocks * block;
}

static void whole(ssize_t done)
{
	if (done != (ssize_t)block)
		err(1, "an I/O moved %zd bytes", done);
}

static uint64_t by_cufile(void)
{
	typedef ssize_t Read(void *, void *, size_t, off_t, off_t);
	Read *read_ = (Read *)symbol(cufile, "cuFileRead");
	uint64_t done = 0;
	for (; !done || done % 64 || now() < until; done++)
		whole(read_(file, (void *)device[0], block, draw(), 0));
	return done;
}

static uint64_t by_batch(void)
{
	typedef Status Submit(void *, unsigned, Entry *, unsigned);
	typedef Status Get(void *, unsigned, unsigned *, Event *, struct timespec *);
	Submit *submit = (Submit *)symbol(cufile, "cuFileBatchIOSubmit");
	Get *get = (Get *)symbol(cufile, "cuFileBatchIOGetStatus");
	void *batch;
	CUFILE("cuFileBatchIOSetUp", (void **, unsigned), &batch, depth);
	Entry entries[MOST];
	Event events[MOST];
	uint64_t done = 0;
	while (!done || now() < until) {
		for (unsigned i = 0; i < depth; i++)
			entries[i] = (Entry){ 1, { (void *)device[i], draw(), 0, block }, file, 0, NULL };
		check("cuFileBatchIOSubmit", submit(batch, depth, entries, 0).code);
		for (unsigned left = depth, count; left; left -= count) {
			count = left;
			check("cuFileBatchIOGetStatus", get(batch, 1, &count, events, NULL).code);
			for (unsigned i = 0; i < count; i++)
				whole(events[i].done);
			done += count;
		}
	}
	return done;
}

static uint64_t by_async(void)
{
	typedef Status Read(void *, void *, size_t *, off_t *, off_t *, ssize_t *, void *);
	typedef int Wait(void *);
	Read *read_ = (Read *)symbol(cufile, "cuFileReadAsync");
	Wait *wait = (Wait *)symbol(cuda, "cuStreamSynchronize");
	size_t size[MOST];
	off_t at[MOST], in[MOST];
	ssize_t moved[MOST];
	uint64_t done = 0, asked = 0;
	while (!done || asked > done || now() < until) {
		unsigned i = asked % depth;
		if (asked - done == depth || (asked > done && now() >= until)) {
			i = done % depth;
			check("cuStreamSynchronize", wait(stream[i]));
			whole(moved[i]);
			done++;
			continue;
		}
		size[i] = block, at[i] = draw(), in[i] = 0, asked++;
		check("cuFileReadAsync",
		      read_(file, (void *)device[i], &size[i], &at[i], &in[i], &moved[i], stream[i]).code);
	}
	return done;
}

static uint64_t by_host(int copies)
{
	typedef int Copy(Pointer, const void *, size_t);
	Copy *copy = copies ? (Copy *)symbol(cuda, "cuMemcpyHtoD_v2") : NULL;
	uint64_t done = 0;
	for (; !done || done % 64 || now() < until; done++) {
		whole(pread(fd, pinned[0], block, draw()));
		if (copy)
			check("cuMemcpyHtoD", copy(device[0], pinned[0], block));
	}
	return done;
}

// Read k + 1 while copy k runs; without reads, copies only.
static uint64_t by_copies(int reads)
{
	typedef int Copy(Pointer, const void *, size_t, void *);
	typedef int Wait(void *);
	Copy *copy = (Copy *)symbol(cuda, "cuMemcpyHtoDAsync_v2");
	Wait *wait = (Wait *)symbol(cuda, "cuStreamSynchronize");
	uint64_t done = 0;
	for (; !done || now() < until; done++) {
		unsigned i = done % depth;
		check("cuStreamSynchronize", wait(stream[i]));
		if (reads)
			whole(pread(fd, pinned[i], block, draw()));
		check("cuMemcpyHtoDAsync", copy(device[i], pinned[i], block, stream[i]));
	}
	for (unsigned i = 0; i < depth; i++)
		check("cuStreamSynchronize", wait(stream[i]));
	return done;
}

static void open_gpu(int number)
{
	int which;
	void *context;
	CUDA("cuInit", (unsigned), 0);
	CUDA("cuDeviceGet", (int *, int), &which, number);
	CUDA("cuDevicePrimaryCtxRetain", (void **, int), &context, which);
	CUDA("cuCtxSetCurrent", (void *), context);
	for (unsigned i = 0; i < depth; i++) {
		CUDA("cuMemAlloc_v2", (Pointer *, size_t), &device[i], block);
		CUDA("cuMemHostAlloc", (void **, size_t, unsigned), (void **)&pinned[i], block, 0);
		CUDA("cuStreamCreate", (void **, unsigned), &stream[i], 1);
	}
}

static void open_cufile(void)
{
	Descriptor descriptor = { .type = 1, .of.fd = fd };
	check("cuFileDriverOpen", ((Status (*)(void))symbol(cufile, "cuFileDriverOpen"))().code);
	CUFILE("cuFileHandleRegister", (void **, Descriptor *), &file, &descriptor);
	for (unsigned i = 0; i < depth; i++)
		CUFILE("cuFileBufRegister", (const void *, size_t, int), (void *)device[i], block, 0);
}

static double seconds(struct timeval before, struct timeval after)
{
	return after.tv_sec - before.tv_sec + (after.tv_usec - before.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
	if (argc != 11)
		errx(2, "see the head of the source");
	const char *what = argv[1];
	block = strtoull(argv[5], NULL, 10), blocks = strtoull(argv[8], NULL, 10) / block;
	depth = atoi(argv[6]);
	if (depth < 1 || depth > MOST)
		errx(2, "depth is 1 to %d", MOST);
	fd = open(argv[4], O_RDONLY | (atoi(argv[9]) ? O_DIRECT : 0));
	if (fd < 0)
		err(1, "%s", argv[4]);
	if (strcmp(what, "host") == 0) {
		if (posix_memalign((void **)&pinned[0], 4096, block))
			errx(1, "no memory");
	} else {
		if (!(cuda = dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL)))
			errx(1, "%s", dlerror());
		open_gpu(atoi(argv[10]));
	}
	if (strcmp(argv[3], "-")) {
		if (!(cufile = dlopen(argv[3], RTLD_NOW | RTLD_GLOBAL)))
			errx(1, "%s", dlerror());
		open_cufile();
	}
	struct rusage before, after;
	double begun = now();
	until = begun + atof(argv[7]);
	getrusage(RUSAGE_SELF, &before);
	uint64_t done = !strcmp(what, "cufile")	      ? by_cufile()
			: !strcmp(what, "batch")      ? by_batch()
			: !strcmp(what, "async")      ? by_async()
			: !strcmp(what, "host")	      ? by_host(0)
			: !strcmp(what, "bounce")     ? by_host(1)
			: !strcmp(what, "overlapped") ? by_copies(1)
						      : by_copies(0);
	getrusage(RUSAGE_SELF, &after);
	printf("%lu %.6f %.6f %.6f\n", done, now() - begun, seconds(before.ru_utime, after.ru_utime),
	       seconds(before.ru_stime, after.ru_stime));
	fflush(stdout);
	_exit(0); // what was made goes with the process
}
