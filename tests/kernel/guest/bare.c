/*
 * Queries PortCounters of many LIDs with as little code as possible, and prints what a MAD costs:
 *
 *   bare calls|uring WINDOW COUNT LID ...
 *
 * `calls` uses write, ppoll and read, as ibnet-sweep does. `uring` gives the same work to io_uring:
 * all writes and reads of a round, and a poll for the next reply, are one system call. The program
 * only checks the status of the replies. Test code of the guest; the layouts are those of
 * linux/ib_user_mad.h and linux/io_uring.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/io_uring.h>
#include <rdma/ib_user_mad.h>

#define MAD 256
#define MESSAGE (sizeof(struct ib_user_mad_hdr) + MAD)
#define MOST 64
#define TIMEOUT_MS 200

static int device, agent;
static char requests[MOST][MESSAGE], replies[MOST][MESSAGE];
static long sent, answered, failed, calls;

static void fail(const char *what)
{
	fprintf(stderr, "bare: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void open_device(void)
{
	struct ib_user_mad_reg_req request = { .qpn = 1, .mgmt_class = 4, .mgmt_class_version = 1 };

	device = open("/dev/infiniband/umad0", O_RDWR | O_NONBLOCK);
	if (device < 0)
		fail("cannot open the device");
	if (ioctl(device, IB_USER_MAD_ENABLE_PKEY) < 0 || ioctl(device, IB_USER_MAD_REGISTER_AGENT, &request) < 0)
		fail("cannot register an agent");
	agent = request.id;
}

/* Makes the request of a PerfMgt Get of PortCounters, port 1. */
static void encode(char *message, uint16_t lid)
{
	struct ib_user_mad_hdr *header = (void *)message;
	unsigned char *mad = (unsigned char *)message + sizeof(*header);

	memset(message, 0, MESSAGE);
	header->id = agent;
	header->timeout_ms = TIMEOUT_MS;
	header->qpn = htobe32(1);
	header->qkey = htobe32(0x80010000);
	header->lid = htobe16(lid);
	mad[0] = 1, mad[1] = 4, mad[2] = 1, mad[3] = 1;
	*(uint32_t *)(mad + 12) = htobe32(sent + 1);
	mad[17] = 0x12;
	mad[64 + 1] = 1;
}

static void count_reply(const char *message)
{
	const struct ib_user_mad_hdr *header = (const void *)message;

	answered++;
	failed += header->status != 0;
}

static void with_calls(long window, long count, char **lids, int of)
{
	struct pollfd ready = { .fd = device, .events = POLLIN };
	struct timespec limit = { .tv_sec = 1 };

	while (answered < count) {
		for (; sent < count && sent - answered < window; sent++, calls++) {
			encode(requests[0], atoi(lids[sent % of]));
			if (write(device, requests[0], MESSAGE) != MESSAGE)
				fail("cannot write");
		}
		calls++;
		if (ppoll(&ready, 1, &limit, NULL) < 0)
			fail("cannot poll");
		for (calls++; read(device, replies[0], MESSAGE) > 0; calls++)
			count_reply(replies[0]);
	}
}

/* The rings that io_uring shares with the kernel. */
static struct {
	int fd;
	unsigned *tail, *mask, *array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *entries;
	struct io_uring_cqe *results;
} ring;

static void open_ring(void)
{
	struct io_uring_params p = { .flags = IORING_SETUP_CQSIZE, .cq_entries = 4 * MOST };
	char *sq;

	ring.fd = syscall(__NR_io_uring_setup, 4 * MOST, &p);
	if (ring.fd < 0)
		fail("cannot set up io_uring");
	if (!(p.features & IORING_FEAT_SINGLE_MMAP))
		fail("io_uring is too old");
	sq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe) + p.sq_entries * 4, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQ_RING);
	ring.entries = mmap(NULL, p.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			    ring.fd, IORING_OFF_SQES);
	if (sq == MAP_FAILED || ring.entries == MAP_FAILED)
		fail("cannot map io_uring");
	ring.tail = (void *)(sq + p.sq_off.tail);
	ring.mask = (void *)(sq + p.sq_off.ring_mask);
	ring.array = (void *)(sq + p.sq_off.array);
	ring.cq_head = (void *)(sq + p.cq_off.head);
	ring.cq_tail = (void *)(sq + p.cq_off.tail);
	ring.cq_mask = (void *)(sq + p.cq_off.ring_mask);
	ring.results = (void *)(sq + p.cq_off.cqes);
}

enum { WRITE, READ, POLL };

static struct io_uring_sqe *put(int kind, int slot)
{
	unsigned at = *ring.tail & *ring.mask;
	struct io_uring_sqe *entry = &ring.entries[at];

	memset(entry, 0, sizeof(*entry));
	entry->opcode = kind == WRITE ? IORING_OP_WRITE : kind == READ ? IORING_OP_READ : IORING_OP_POLL_ADD;
	entry->fd = device;
	entry->user_data = kind << 16 | slot;
	if (kind == POLL) {
		entry->poll32_events = POLLIN;
	} else {
		entry->addr = (uintptr_t)(kind == WRITE ? requests[slot] : replies[slot]);
		entry->len = MESSAGE;
		entry->off = -1;
	}
	ring.array[at] = at;
	__atomic_store_n(ring.tail, *ring.tail + 1, __ATOMIC_RELEASE);
	return entry;
}

/* A round: the writes that the window allows, reads of the replies that may be there, and a poll.
 * The round ends when the poll and all other operations are complete. */
static void with_ring(long window, long count, char **lids, int of)
{
	while (answered < count) {
		unsigned operations = 0, head;
		long slot;

		for (slot = 0; sent < count && sent - answered < window; sent++, slot++, operations++) {
			encode(requests[slot], atoi(lids[sent % of]));
			put(WRITE, slot);
		}
		put(POLL, 0)->flags = IOSQE_IO_LINK;
		operations++;
		/* Linked to the poll: the first read runs when a reply is there. */
		for (slot = 0; slot < window && slot < sent - answered; slot++, operations++)
			put(READ, slot)->flags = slot + 1 < window && slot + 1 < sent - answered ? IOSQE_IO_LINK : 0;
		calls++;
		if (syscall(__NR_io_uring_enter, ring.fd, operations, operations, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			fail("cannot enter io_uring");
		for (head = *ring.cq_head; head != __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE); head++) {
			struct io_uring_cqe *result = &ring.results[head & *ring.cq_mask];

			if (result->user_data >> 16 == READ && result->res == MESSAGE)
				count_reply(replies[result->user_data & 0xffff]);
			if (result->user_data >> 16 == WRITE && result->res != MESSAGE) {
				errno = -result->res;
				fail("cannot write by io_uring");
			}
		}
		__atomic_store_n(ring.cq_head, head, __ATOMIC_RELEASE);
	}
}

/* Returns the run time of this process in nanoseconds. */
static long run_time(void)
{
	long time = 0;
	FILE *file = fopen("/proc/self/schedstat", "r");

	if (!file || fscanf(file, "%ld", &time) != 1)
		fail("cannot read the run time");
	fclose(file);
	return time;
}

int main(int count, char **args)
{
	long window, mads, before;

	if (count < 5) {
		fprintf(stderr, "usage: bare calls|uring WINDOW COUNT LID ...\n");
		return 2;
	}
	window = atol(args[2]), mads = atol(args[3]);
	if (window < 1 || window > MOST)
		window = MOST;
	open_device();
	if (strcmp(args[1], "uring") == 0)
		open_ring();
	before = run_time();
	if (strcmp(args[1], "uring") == 0)
		with_ring(window, mads, args + 4, count - 4);
	else
		with_calls(window, mads, args + 4, count - 4);
	printf("%ld %ld %ld %ld\n", (run_time() - before) / mads, calls * 100 / mads, answered, failed);
	return 0;
}
