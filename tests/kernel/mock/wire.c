// SPDX-License-Identifier: GPL-2.0
/* The way of a MAD: a request is answered at once, and its reply waits until it is due. */
#include <linux/slab.h>
#include <rdma/ib_pma.h>

#include "mock.h"

DEFINE_SPINLOCK(wire_lock);
static LIST_HEAD(replies);	/* by due time */
static struct hrtimer timer;

/* Puts a reply into the next receive buffer. */
static void deliver(struct packet *packet)
{
	struct mock_qp *qp = packet->qp;
	struct mock_buffer *buffer;
	struct ib_wc wc = {
		.status = IB_WC_SUCCESS, .opcode = IB_WC_RECV, .byte_len = 40 + MAD_OCTETS,
		.qp = &qp->ib, .src_qp = packet->class == CLASS_SMP ? 0 : 1, .slid = packet->slid,
		.sl = packet->sl, .pkey_index = packet->pkey_index, .port_num = 1,
	};

	statistics.waiting[packet->class]--;
	if (packet->class == CLASS_REPORT)
		statistics.reports++;
	if (!qp->count) {
		statistics.overrun++;
		return;
	}
	buffer = &qp->ring[qp->head];
	qp->head = (qp->head + 1) % qp->size;
	qp->count--;
	memset(buffer->data, 0, 40);
	memcpy(buffer->data + 40, packet->mad, MAD_OCTETS);
	wc.wr_cqe = buffer->cqe;
	add_completion(container_of(qp->ib.recv_cq, struct mock_cq, ib), &wc);
}

static void arm(void)
{
	struct packet *first = list_first_entry_or_null(&replies, struct packet, list);

	if (first)
		hrtimer_start(&timer, first->due, HRTIMER_MODE_ABS);
}

static void enqueue(struct packet *packet)
{
	struct packet *before;
	u8 class = packet->class;

	statistics.waiting[class]++;
	if (statistics.waiting[class] > statistics.peak[class])
		statistics.peak[class] = statistics.waiting[class];
	list_for_each_entry_reverse(before, &replies, list)
		if (before->due <= packet->due)
			break;
	list_add(&packet->list, &before->list);
	if (list_is_first(&packet->list, &replies))
		arm();
}

void wire_enqueue(struct packet *packet, uint delay_us)
{
	packet->due = ktime_add_us(ktime_get(), delay_us);
	enqueue(packet);
}

static enum hrtimer_restart expire(struct hrtimer *unused)
{
	struct packet *packet;
	unsigned long flags;

	spin_lock_irqsave(&wire_lock, flags);
	while ((packet = list_first_entry_or_null(&replies, struct packet, list)) &&
	       packet->due <= ktime_get()) {
		list_del(&packet->list);
		deliver(packet);
		if (packet->repeats) {
			packet->repeats--;
			wire_enqueue(packet, faults.repeat_us);
		} else {
			kfree(packet);
		}
	}
	arm();
	spin_unlock_irqrestore(&wire_lock, flags);
	return HRTIMER_NORESTART;
}

static void release(struct packet *packet, uint delay_us)
{
	if (!delay_us) {
		statistics.waiting[packet->class]++;
		deliver(packet);
		kfree(packet);
		return;
	}
	wire_enqueue(packet, delay_us);
}

/* Returns whether the request is for counters. ClassPortInfo and PortSamplesControl have none. */
static bool is_for_counters(const struct packet *packet)
{
	__be16 attribute = ((const struct ib_mad_hdr *)packet->mad)->attr_id;

	return packet->class == CLASS_PMA && attribute != IB_PMA_CLASS_PORT_INFO && attribute != IB_PMA_PORT_SAMPLES_CONTROL;
}

/* Returns whether drop_every applies to the request. */
static bool can_drop(const struct packet *packet)
{
	return faults.drop_kind == DROP_ALL || (faults.drop_kind == DROP_COUNTERS) == is_for_counters(packet);
}

/* Returns whether a fault takes the request. */
static bool lost(struct packet *packet, u16 dlid)
{
	static uint number;

	if (hits(faults.need_pkey, dlid) && (pkey_table[packet->pkey_index] & 0x7fff) != (faults.pkey & 0x7fff)) {
		statistics.mismatched++;
		return true;
	}
	if (hits(faults.drop, dlid) || (faults.drop_every && can_drop(packet) && ++number % faults.drop_every == 0)) {
		statistics.dropped++;
		return true;
	}
	return false;
}

static u8 class_of(u8 mgmt_class)
{
	switch (mgmt_class) {
	case IB_MGMT_CLASS_SUBN_LID_ROUTED:
	case IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE:
		return CLASS_SMP;
	case IB_MGMT_CLASS_SUBN_ADM:
		return CLASS_SA;
	case MGMT_CLASS_VENDOR:
		return CLASS_VENDOR;
	default:
		return CLASS_PMA;
	}
}

/* Collects the octets of a send; returns whether they are one MAD. */
static bool gather(const struct ib_send_wr *wr, u8 *mad)
{
	u32 at = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		if (at + wr->sg_list[i].length > MAD_OCTETS)
			return false;
		memcpy(mad + at, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		at += wr->sg_list[i].length;
	}
	return at == MAD_OCTETS;
}

int wire_send(struct mock_qp *qp, const struct ib_ud_wr *wr)
{
	struct mock_hca *hca = container_of(qp->ib.device, struct mock_hca, ib);
	const struct rdma_ah_attr *to = &container_of(wr->ah, struct mock_ah, ib)->attr;
	struct packet *packet = kzalloc(sizeof(*packet), GFP_ATOMIC), *copy;
	u16 dlid = rdma_ah_get_dlid(to);
	struct ib_wc wc = { .wr_cqe = wr->wr.wr_cqe, .opcode = IB_WC_SEND, .qp = &qp->ib };
	unsigned long flags;
	bool faulty;
	uint delay;

	if (!packet)
		return -ENOMEM;
	if (!gather(&wr->wr, packet->mad) || wr->pkey_index >= PKEYS) {
		kfree(packet);
		return -EINVAL;
	}
	packet->qp = qp;
	packet->slid = dlid;
	packet->pkey_index = wr->pkey_index;
	packet->sl = rdma_ah_get_sl(to);
	packet->class = class_of(packet->mad[1]);

	spin_lock_irqsave(&wire_lock, flags);
	statistics.requests[packet->class]++;
	faulty = faults.classes & (1 << packet->class);
	wc.status = faulty && hits(faults.fail_send, dlid) ? IB_WC_LOC_QP_OP_ERR : IB_WC_SUCCESS;
	add_completion(container_of(qp->ib.send_cq, struct mock_cq, ib), &wc);
	if (wc.status) {
		statistics.failed++;
		goto drop;
	}
	if (!hca->up || (faulty && lost(packet, dlid)) || !answer(hca, dlid, packet))
		goto drop;
	if (faulty && hits(faults.wrong_source, dlid))
		packet->slid = sm_lid;
	delay = faults.service_us + (faulty && hits(faults.delay, dlid) ? faults.delay_us : 0);
	if (faulty && hits(faults.duplicate, dlid)) {
		copy = kmemdup(packet, sizeof(*packet), GFP_ATOMIC);
		if (copy) {
			statistics.duplicated++;
			release(copy, delay);
		}
	}
	release(packet, delay);
	spin_unlock_irqrestore(&wire_lock, flags);
	return 0;
drop:
	spin_unlock_irqrestore(&wire_lock, flags);
	kfree(packet);
	return 0;
}

/* Ends the repetitions of the Report that a ReportResp answers. */
void wire_acknowledge(const struct mock_qp *qp, const u8 *response)
{
	struct packet *packet;

	if (faults.ignore_responses) {
		faults.ignore_responses--;
		return;
	}
	list_for_each_entry(packet, &replies, list) {
		if (packet->class != CLASS_REPORT || packet->qp != qp || memcmp(packet->mad + 8, response + 8, 8))
			continue;
		statistics.responses++;
		statistics.waiting[CLASS_REPORT]--;
		list_del(&packet->list);
		kfree(packet);
		return;
	}
	statistics.stray_responses++;
}

/* Removes the replies to a queue pair that ends. */
void wire_forget(struct mock_qp *qp)
{
	struct packet *packet, *next;
	unsigned long flags;

	spin_lock_irqsave(&wire_lock, flags);
	list_for_each_entry_safe(packet, next, &replies, list) {
		if (packet->qp != qp)
			continue;
		statistics.waiting[packet->class]--;
		list_del(&packet->list);
		kfree(packet);
	}
	traps_forget(qp);
	spin_unlock_irqrestore(&wire_lock, flags);
}

void wire_start(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&timer, expire, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#else
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	timer.function = expire;
#endif
}

void wire_stop(void)
{
	hrtimer_cancel(&timer);
}
