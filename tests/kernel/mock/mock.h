/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A mock HCA on a mock fabric, for the tests of ibnet on a real kernel.
 *
 * module.c	HCAs that appear and disappear, port events, commands
 * verbs.c	the verbs that ib_core and ib_mad call
 * wire.c	the way of a MAD: faults, delays, completions
 * agents.c	the answers: performance management, subnet management, administration
 * vendor.c	the answers: registers of the vendor
 * fabric.c	switches, HCAs and links
 * traps.c	subscriptions to traps, and the Reports of the subnet manager
 * faults.c	the faults and the statistics, as module parameters
 */
#ifndef IBNET_MOCK_H
#define IBNET_MOCK_H

#include <linux/bitmap.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/version.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>

#define MAD_OCTETS	256
#define DATA_AT		64	/* first octet of the attribute in PMA and SMP MADs */
#define LIDS		0xc000	/* unicast LIDs end below this one */
#define ALIAS		0x4000	/* LID + ALIAS is a second LID of a device: redirects lead there */
#define MAX_HCAS	2
#define PKEYS		2

/* module.c */

struct mock_hca {
	struct ib_device ib;
	int index;		/* 0 or 1 */
	u16 node;		/* index in the fabric */
	bool up;		/* whether the port is active */
};

/*
 * Whether a port has two devices with the same port GUID, as in planarized fabrics (XDR): HCA 0 for
 * general management, and HCA 1, the SMI device, for subnet management. Not seen on hardware.
 */
extern bool planarized;
extern bool directed_only;	/* SMPs by LID are not answered */
extern u16 sm_lid;
extern u16 pkey_table[PKEYS];

/* verbs.c */

struct mock_pd {
	struct ib_pd ib;
};

struct mock_cq {
	struct ib_cq ib;
	struct ib_wc *ring;
	u32 size, head, count;
	bool armed;
};

struct mock_buffer {
	struct ib_cqe *cqe;
	u8 *data;		/* 40 octets for a GRH, then the MAD */
};

struct mock_qp {
	struct ib_qp ib;
	struct mock_buffer *ring;
	u32 size, head, count;
};

struct mock_ah {
	struct ib_ah ib;
	struct rdma_ah_attr attr;
};

extern const struct ib_device_ops mock_ops;
void add_completion(struct mock_cq *cq, const struct ib_wc *wc);

/* wire.c */

struct packet {
	struct list_head list;	/* by due time */
	ktime_t due;
	struct mock_qp *qp;
	u16 slid;
	u16 pkey_index;
	u8 sl;
	u8 class;		/* index of CLASS_* */
	u8 repeats;		/* how often a Report is still sent again */
	u8 mad[MAD_OCTETS];
};

extern spinlock_t wire_lock;	/* guards queues, completions, fabric and faults */
void wire_start(void);
void wire_stop(void);
int wire_send(struct mock_qp *qp, const struct ib_ud_wr *wr);
void wire_forget(struct mock_qp *qp);
void wire_enqueue(struct packet *packet, uint delay_us);
void wire_acknowledge(const struct mock_qp *qp, const u8 *response);

/* agents.c */

/* A Report is the only MAD that no request has caused. */
enum { CLASS_PMA, CLASS_SMP, CLASS_SA, CLASS_REPORT, CLASS_VENDOR, CLASSES };

/* Management class of NVIDIA devices: vendor range 1 */
#define MGMT_CLASS_VENDOR	0x0a

bool answer(struct mock_hca *hca, u16 dlid, struct packet *packet);

struct mock_node;

/* vendor.c */

void vendor_answer(const struct mock_node *node, u8 *mad);

/* fabric.c */

enum { TYPE_HCA = 1, TYPE_SWITCH = 2 };

struct link_end {
	u16 node;		/* peer; NO_NODE without a cable */
	u8 port;
	bool down;
};

#define NO_NODE 0xffff

struct mock_node {
	u64 guid;
	u16 lid;
	u8 type;
	u8 ports;
	bool rs_fec;		/* whether its ports use a Reed-Solomon code */
	bool manages;		/* whether a subnet manager runs on it */
	u8 manager;		/* priority and state of this subnet manager, as in SMInfo */
	char name[64];
	struct link_end *ends;	/* by port number; 0 is not used */
};

int fabric_build(int hcas);
void fabric_free(void);
struct mock_node *fabric_node(u16 index);
struct mock_node *fabric_by_lid(u16 lid);
struct mock_node *fabric_by_guid(u64 guid);
u16 fabric_own_node(int hca);
int fabric_set_lid(struct mock_node *node, u16 lid);
u16 fabric_top_lid(void);
u8 fabric_port_to(const struct mock_node *from, u16 lid);
int fabric_set_link(u16 lid, u8 port, bool down);
int fabric_exchange(u16 a_lid, u8 a_port, u16 b_lid, u8 b_port);

/* traps.c */

enum { TRAP_LINK = 128, TRAP_PORT = 144 };

u16 traps_inform(struct mock_hca *hca, const struct packet *packet);
void traps_forward(u16 trap, const struct mock_node *node);
void traps_forget(const struct mock_qp *qp);
void traps_forget_all(void);

/* faults.c */

/* The requests that drop_every loses: all, those for counters, or all others. */
enum { DROP_ALL, DROP_COUNTERS, DROP_OTHERS };

struct faults {
	unsigned long drop[BITS_TO_LONGS(LIDS)];
	unsigned long delay[BITS_TO_LONGS(LIDS)];
	unsigned long duplicate[BITS_TO_LONGS(LIDS)];
	unsigned long wrong_source[BITS_TO_LONGS(LIDS)];
	unsigned long fail_send[BITS_TO_LONGS(LIDS)];
	unsigned long redirect[BITS_TO_LONGS(LIDS)];
	unsigned long need_pkey[BITS_TO_LONGS(LIDS)];
	uint drop_every;	/* each n-th of the requests in drop_kind is lost */
	uint drop_kind;		/* DROP_* */
	uint delay_us;
	uint service_us;	/* delay of all replies */
	uint redirect_form;	/* 1: the attribute ID of the request; 2: that of ClassPortInfo */
	uint pkey;		/* the P_Key of the LIDs in need_pkey */
	uint classes;		/* bit n: the faults apply to class n */
	unsigned long moving[BITS_TO_LONGS(LIDS)];
	int trend;		/* added to the traffic counters of `moving` at each reply */
	ulong step;		/* added to the 64-bit traffic counters and those by service level */
	uint register_image;	/* selects the random octets of all registers */
	uint path_sl;		/* SL in path records */
	uint refuse_inform;	/* status of the answers to InformInfo */
	uint ignore_responses;	/* number of ReportResps that are lost */
	uint repeat_us;		/* time after which a Report is repeated */
};

struct statistics {
	ulong requests[CLASSES];
	ulong waiting[CLASSES];	/* replies that are delayed now */
	ulong peak[CLASSES];	/* most replies that were delayed at once */
	ulong dropped, duplicated, failed, mismatched, redirected, overrun;
	ulong directed;		/* requests by the LID of a switch, and from there by port */
	ulong cleared;		/* requests that cleared counters */
	ulong state_tables;	/* requests for the states of all ports of a switch */
	ulong registers;	/* requests for a register */
	ulong vendor_sets;	/* requests of class 0x0a with a method but Get */
	ulong vendor_acts;	/* bits in requests for a register that would change a device */
	ulong informs;		/* requests for a subscription */
	ulong withdrawals;	/* requests to end a subscription */
	ulong subscriptions;	/* that exist now */
	ulong reports;		/* Reports that were sent, with repetitions */
	ulong responses;	/* ReportResps that answered a Report */
	ulong stray_responses;	/* ReportResps that answered no Report */
};

extern struct faults faults;
extern struct statistics statistics;

static inline bool hits(const unsigned long *lids, u16 lid)
{
	return lid < LIDS && test_bit(lid, lids);
}

#endif
