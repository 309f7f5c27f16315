/*
 * Queries counters of ports and does nothing else: a program to compare ibnet-sweep with.
 *
 *     loop serial|window N SWEEPS INTERVAL_MS ATTRIBUTE... < list of "LID PORT"
 *
 * serial: libibmad's pma_query_via, one request at a time, as other samplers do (N is not used).
 * window: umad_send and umad_recv with N requests in flight, one per LID. Replies are not checked:
 *         this is the lower bound for a pipelined client.
 *
 * A sweep starts every INTERVAL_MS. Prints a line per sweep: nanoseconds, replies, failures. The last
 * line is the CPU time of all sweeps in nanoseconds.
 */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <infiniband/mad.h>
#include <infiniband/umad.h>

#define MOST_PORTS 65536
#define MOST_ATTRIBUTES 16
#define TIMEOUT_MS 50

struct port { int lid, num; };

static struct port ports[MOST_PORTS];
static int port_count, attribute_count;
static int attributes[MOST_ATTRIBUTES];

static uint64_t now(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void fail(const char *call)
{
	fprintf(stderr, "loop: %s: %s\n", call, strerror(errno));
	exit(1);
}

static void serial(struct ibmad_port *port, int *replies, int *failures)
{
	uint8_t data[1024];
	for (int p = 0; p < port_count; p++) {
		ib_portid_t to = { .lid = ports[p].lid };
		for (int a = 0; a < attribute_count; a++) {
			memset(data, 0, sizeof data);
			if (pma_query_via(data, &to, ports[p].num, TIMEOUT_MS, attributes[a], port))
				++*replies;
			else
				++*failures;
		}
	}
}

/* The requests to one LID, in their order. */
struct device { int lid, first, end, at; };

static struct device devices[MOST_PORTS];
static int device_count;
static struct device *of_lid[65536];

static int by_size(const void *a, const void *b)
{
	const struct device *x = a, *y = b;
	return (y->end - y->first) - (x->end - x->first);
}

static void group_by_lid(void)
{
	for (int p = 0; p < port_count; p++) {
		if (!device_count || devices[device_count - 1].lid != ports[p].lid)
			devices[device_count++] = (struct device){ ports[p].lid, p * attribute_count, p * attribute_count, 0 };
		devices[device_count - 1].end = (p + 1) * attribute_count;
	}
	qsort(devices, device_count, sizeof *devices, by_size);
	for (int d = 0; d < device_count; d++)
		of_lid[devices[d].lid] = &devices[d];
}

static void send_next(int fd, int agent, void *umad, struct device *device)
{
	int port = device->at / attribute_count, attribute = attributes[device->at % attribute_count];
	uint8_t *mad = umad_get_mad(umad);
	memset(mad, 0, 256);
	mad[0] = 1, mad[1] = IB_PERFORMANCE_CLASS, mad[2] = 1, mad[3] = 1;
	/* The transaction ID has the LID. */
	mad[14] = device->lid >> 8, mad[15] = device->lid;
	mad[16] = attribute >> 8, mad[17] = attribute;
	mad[65] = ports[port].num;
	umad_set_addr(umad, device->lid, 1, 0, IB_DEFAULT_QP1_QKEY);
	if (umad_send(fd, agent, umad, 256, TIMEOUT_MS, 0) < 0)
		fail("umad_send");
	device->at++;
}

static void window(int fd, int agent, void *umad, int most, int *replies, int *failures)
{
	int next = 0, in_flight = 0;
	for (int d = 0; d < device_count; d++)
		devices[d].at = devices[d].first;
	while (next < device_count || in_flight) {
		while (in_flight < most && next < device_count) {
			send_next(fd, agent, umad, &devices[next++]);
			in_flight++;
		}
		int length = 256;
		if (umad_recv(fd, umad, &length, 1000) < 0)
			fail("umad_recv");
		uint8_t *mad = umad_get_mad(umad);
		struct device *device = of_lid[mad[14] << 8 | mad[15]];
		in_flight--;
		if (umad_status(umad))
			++*failures;
		else
			++*replies;
		if (device->at < device->end) {
			send_next(fd, agent, umad, device);
			in_flight++;
		}
	}
}

int main(int argc, char **argv)
{
	if (argc < 6)
		return 2;
	int is_serial = !strcmp(argv[1], "serial"), most = atoi(argv[2]), sweeps = atoi(argv[3]);
	uint64_t interval = strtoull(argv[4], NULL, 0) * 1000000;
	for (int a = 5; a < argc && attribute_count < MOST_ATTRIBUTES; a++)
		attributes[attribute_count++] = strtol(argv[a], NULL, 0);
	while (port_count < MOST_PORTS && scanf("%d %d", &ports[port_count].lid, &ports[port_count].num) == 2)
		port_count++;
	struct ibmad_port *srcport = NULL;
	int fd = -1, agent = -1, classes[] = { IB_PERFORMANCE_CLASS };
	void *umad = NULL;
	if (is_serial) {
		srcport = mad_rpc_open_port(NULL, 0, classes, 1);
		if (!srcport)
			fail("mad_rpc_open_port");
	} else {
		group_by_lid();
		umad_init();
		fd = umad_open_port(NULL, 0);
		agent = fd < 0 ? -1 : umad_register(fd, IB_PERFORMANCE_CLASS, 1, 0, NULL);
		if (agent < 0)
			fail("umad_register");
		/* Only after a port is open does umad_size return the size of the header. */
		umad = umad_alloc(1, umad_size() + 256);
	}
	uint64_t cpu = now(CLOCK_PROCESS_CPUTIME_ID), start = now(CLOCK_MONOTONIC);
	for (int sweep = 0; sweep < sweeps; sweep++) {
		int replies = 0, failures = 0;
		uint64_t begin = now(CLOCK_MONOTONIC);
		if (is_serial)
			serial(srcport, &replies, &failures);
		else
			window(fd, agent, umad, most, &replies, &failures);
		uint64_t end = now(CLOCK_MONOTONIC), next = start + (sweep + 1) * interval;
		printf("%llu %d %d\n", (unsigned long long)(end - begin), replies, failures);
		if (next > end) {
			struct timespec rest = { (next - end) / 1000000000, (next - end) % 1000000000 };
			nanosleep(&rest, NULL);
		}
	}
	printf("%llu\n", (unsigned long long)(now(CLOCK_PROCESS_CPUTIME_ID) - cpu));
	return 0;
}
