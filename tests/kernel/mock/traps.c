// SPDX-License-Identifier: GPL-2.0
/*
 * Traps: the subnet manager keeps the subscriptions of the mock HCAs (InformInfo), forwards a trap
 * as a Report with a Notice, and repeats it until a ReportResp arrives. Positions are those of IBA
 * volume 1, 13.4.8.2 (Notice), 13.4.8.3 (InformInfo) and 15.2.1 (MADs of subnet administration).
 */
#include <linux/bits.h>
#include <linux/slab.h>

#include "mock.h"
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

#define METHOD_REPORT		0x06
#define STATUS_REQ_INVALID	0x0200
#define ALL_LIDS		0xffff
#define REPEATS			3	/* how often a Report is sent again */

/* The subscriptions of one HCA. */
static struct {
	struct mock_qp *qp;	/* to which the Reports go */
	unsigned long traps;	/* bits of trap_bit() */
} subscribers[MAX_HCAS];

static unsigned long trap_bit(u16 trap)
{
	switch (trap) {
	case TRAP_LINK:
		return BIT(0);
	case TRAP_PORT:
		return BIT(1);
	default:
		return 0;
	}
}

static void count_subscriptions(void)
{
	int i;

	statistics.subscriptions = 0;
	for (i = 0; i < MAX_HCAS; i++)
		statistics.subscriptions += hweight_long(subscribers[i].traps);
}

/* Answers a Set of InformInfo with its status. */
u16 traps_inform(struct mock_hca *hca, const struct packet *packet)
{
	const u8 *mad = packet->mad;
	unsigned long bit = trap_bit(get_unaligned_be16(mad + 82));
	unsigned long *traps = &subscribers[hca->index].traps;
	u32 qpn = get_unaligned_be32(mad + 84) >> 8;
	u16 type = get_unaligned_be16(mad + 80);

	if (mad[79] > 1)
		return STATUS_REQ_INVALID;
	if (mad[79])
		statistics.informs++;
	else
		statistics.withdrawals++;
	if (faults.refuse_inform)
		return faults.refuse_inform;
	/* All LIDs, generic, all types or "urgent" and "informational", queue pair 1. */
	if (!bit || get_unaligned_be16(mad + 72) != ALL_LIDS || mad[78] != 1 || type != 0xffff || qpn != 1)
		return STATUS_REQ_INVALID;
	/* Only a subscription that exists can end. */
	if (!mad[79] && !(*traps & bit))
		return STATUS_REQ_INVALID;
	if (mad[79])
		*traps |= bit;
	else
		*traps &= ~bit;
	subscribers[hca->index].qp = packet->qp;
	count_subscriptions();
	return 0;
}

/* Another subnet manager does not know the subscribers. */
void traps_forget_all(void)
{
	memset(subscribers, 0, sizeof(subscribers));
	count_subscriptions();
}

/* Removes the subscriptions to a queue pair that ends. */
void traps_forget(const struct mock_qp *qp)
{
	int i;

	for (i = 0; i < MAX_HCAS; i++)
		if (subscribers[i].qp == qp)
			memset(&subscribers[i], 0, sizeof(subscribers[i]));
	count_subscriptions();
}

static void notice(u8 *mad, u16 trap, const struct mock_node *node)
{
	/* Both halves of the transaction ID have a value: the reply must keep them. */
	static u32 transaction;

	mad[0] = 1;
	mad[1] = IB_MGMT_CLASS_SUBN_ADM;
	mad[2] = 2;
	mad[3] = METHOD_REPORT;
	put_unaligned_be32(0x00c0ffee, mad + 8);
	put_unaligned_be32(++transaction, mad + 12);
	put_unaligned_be16(2, mad + 16);
	mad[56] = 0x80 | (trap == TRAP_LINK ? 1 : 4);	/* generic; urgent or informational */
	mad[59] = node->type == TYPE_SWITCH ? 2 : 1;
	put_unaligned_be16(trap, mad + 60);
	put_unaligned_be16(node->lid, mad + 62);
	put_unaligned_be16(node->lid, mad + (trap == TRAP_LINK ? 66 : 68));
}

/* The subnet manager forwards a trap of a device. */
void traps_forward(u16 trap, const struct mock_node *node)
{
	int i;

	for (i = 0; i < MAX_HCAS; i++) {
		struct packet *packet;

		if (!(subscribers[i].traps & trap_bit(trap)))
			continue;
		packet = kzalloc(sizeof(*packet), GFP_ATOMIC);
		if (!packet)
			return;
		packet->qp = subscribers[i].qp;
		packet->slid = sm_lid;
		packet->class = CLASS_REPORT;
		packet->repeats = REPEATS;
		notice(packet->mad, trap, node);
		wire_enqueue(packet, 0);
	}
}
