// SPDX-License-Identifier: GPL-2.0
/*
 * The answers of the devices. Positions are those of IBA volume 1: chapter 14 (subnet management),
 * 15 (subnet administration) and 16 (performance management). All answers are deterministic.
 */
#include <linux/string.h>

#include "mock.h"
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

#define METHOD_GET		0x01
#define METHOD_SET		0x02
#define METHOD_GET_RESP		0x81
#define METHOD_REPORT_RESP	0x86
#define STATUS_REDIRECT		0x0002
#define STATUS_UNSUPPORTED	0x000c
#define STATUS_INVALID		0x001c
#define STATUS_NO_RECORDS	0x0300
#define DIRECTION		0x8000	/* of a directed route, in the status */
#define PERMISSIVE		0xffff

#define PREFIX			0xfe80000000000000ULL
#define SWITCH_ID		0xd2f0	/* Quantum */
#define HCA_ID			0x101b	/* ConnectX-6 */
#define VENDOR_ID		0x0002c9

static void status(u8 *mad, u16 value)
{
	put_unaligned_be16(value, mad + 4);
}

static u16 attribute(const u8 *mad)
{
	return get_unaligned_be16(mad + 16);
}

/* Performance management */

/* A constant of a port, an attribute and a position; no octet of it is 0xff. */
static u32 noise(u64 guid, u8 port, u16 id, u32 at)
{
	u64 x = guid * 0x9e3779b97f4a7c15ULL + ((u64)port << 40) + ((u64)id << 16) + at;

	x ^= x >> 31;
	x *= 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 29;
	x *= 0x94d049bb133111ebULL;
	return (x >> 32) & 0x7f7f7f7f;
}

static void class_port_info(u8 *data)
{
	memset(data, 0, 192);
	data[0] = 1;
	data[1] = 1;
	/* 64-bit counters, PortXmitWait, RS-FEC, QP1Dropped; CapabilityMask2: 64-bit errors. */
	put_unaligned_be16(0xd204, data + 2);
	put_unaligned_be32(1 << 6 | 18, data + 4);
}

static void redirection(u8 *data, u16 lid)
{
	class_port_info(data);
	put_unaligned_be16(lid, data + 28);
	put_unaligned_be16(0xffff, data + 30);
	put_unaligned_be32(1, data + 32);
	put_unaligned_be32(0x80010000, data + 36);
}

static bool has_counters(const struct mock_node *node, u16 id)
{
	switch (id) {
	case 0x10:
	case 0x12:
	case 0x15 ... 0x1d:
	case 0x1f:
	case 0x31 ... 0x37:
		return true;
	case 0x30:
		return node->type == TYPE_SWITCH;
	default:
		return false;
	}
}

#define SL_XMIT			0x36	/* PortXmitDataSL; the next one is PortRcvDataSL */
#define SLS			16

/* What each counter by service level had counted when it was cleared, of the LIDs and ports below 32 */
static u64 cleared[2][32][32][SLS];

/* Writes the counters by service level. They stop when all bits are one. */
static void levels(const struct mock_node *node, u8 port, u16 id, u16 select, u8 *data)
{
	u64 *before, now;
	u32 sl;

	for (sl = 0; sl < SLS; sl++) {
		before = &cleared[id - SL_XMIT][node->lid % 32][port % 32][sl];
		now = (u64)noise(node->guid, port, id, 4 + 4 * sl) + faults.step;
		if (select >> sl & 1)
			*before = now;
		put_unaligned_be32(min_t(u64, now - *before, U32_MAX), data + 4 + 4 * sl);
	}
}

static void counters(const struct mock_node *node, u16 dlid, u8 port, u16 id, u8 *data)
{
	static s64 moved;
	u32 at, first = id == 0x1f ? 16 : 4;

	for (at = first; at < 192; at += 4)
		put_unaligned_be32(noise(node->guid, port, id, at), data + at);
	if (id == 0x10) {
		memset(data + 10, 0, 2);
		memset(data + 12, 0xff, 8);
	}
	/* The traffic counters: 40 bits, so that they can increase. */
	if (hits(faults.moving, dlid))
		moved += faults.trend;
	for (at = 8; id == 0x1d && at < 72; at += 8)
		put_unaligned_be64((get_unaligned_be64(data + at) & 0xffffffffffULL) + faults.step +
				   (hits(faults.moving, dlid) ? moved : 0), data + at);
}

/* Whether a request clears counters by service level. No other Set is answered. */
static bool clears(const u8 *mad)
{
	return mad[3] == METHOD_SET && mad[1] == IB_MGMT_CLASS_PERF_MGMT &&
	       (attribute(mad) == SL_XMIT || attribute(mad) == SL_XMIT + 1);
}

static void perform(const struct mock_node *node, u16 dlid, bool clear, u8 *mad)
{
	u8 *data = mad + DATA_AT;
	u16 id = attribute(mad);

	if (faults.classes & (1 << CLASS_PMA) && hits(faults.redirect, dlid)) {
		statistics.redirected++;
		redirection(data, dlid + ALIAS);
		status(mad, STATUS_REDIRECT);
		if (faults.redirect_form == 2)
			put_unaligned_be16(1, mad + 16);
	} else if (id == 1) {
		class_port_info(data);
	} else if (!has_counters(node, id)) {
		status(mad, STATUS_UNSUPPORTED);
	} else if (!data[1] || data[1] > node->ports) {
		status(mad, STATUS_INVALID);
	} else {
		u16 select = clear ? get_unaligned_be16(data + 2) : 0;

		counters(node, dlid, data[1], id, data);
		if (id == SL_XMIT || id == SL_XMIT + 1)
			levels(node, data[1], id, select, data);
		statistics.cleared += clear;
	}
}

/* Subnet management */

static void node_info(const struct mock_node *node, u8 in_port, u8 *data)
{
	data[0] = 1;
	data[1] = 1;
	data[2] = node->type;
	data[3] = node->ports;
	put_unaligned_be64(node->guid, data + 4);
	put_unaligned_be64(node->guid, data + 12);
	put_unaligned_be64(node->guid, data + 20);
	put_unaligned_be16(8, data + 28);
	put_unaligned_be16(node->type == TYPE_SWITCH ? SWITCH_ID : HCA_ID, data + 30);
	put_unaligned_be32(in_port << 24 | VENDOR_ID, data + 36);
}

static void switch_info(const struct mock_node *node, u8 *data)
{
	put_unaligned_be16(0xc000, data);
	put_unaligned_be16(0x1000, data + 4);
	put_unaligned_be16(fabric_top_lid(), data + 6);
	data[11] = 0x90;
	put_unaligned_be16(8, data + 14);
}

static bool is_up(const struct mock_node *node, u8 port)
{
	return (!port && node->type == TYPE_SWITCH) || (node->ends[port].node != NO_NODE && !node->ends[port].down);
}

static void port_info(const struct mock_node *node, u8 port, u8 in_port, u8 *data)
{
	bool up = is_up(node, port), based = !port || node->type == TYPE_HCA;

	put_unaligned_be64(PREFIX, data + 8);
	if (based)
		put_unaligned_be16(node->lid, data + 16);
	put_unaligned_be16(sm_lid, data + 18);
	/* Extended speeds and CapabilityMask2; the port of a subnet manager has the bit IsSM. */
	put_unaligned_be32(0xc000 | (based && node->manages ? 2 : 0), data + 20);
	data[28] = in_port;
	data[29] = 0x03;		/* 1x or 4x */
	data[30] = 0x03;
	data[31] = 0x02;		/* 4x */
	data[32] = 0x70 | (up ? 4 : 1);	/* SDR, DDR, QDR; active or down */
	data[33] = (up ? 5 : 2) << 4 | 2;	/* LinkUp or polling */
	data[35] = 0x47;
	data[36] = 0x50;		/* MTU 4096 */
	data[37] = 0x40;		/* VL 0 to 7 */
	data[41] = 0x05;		/* the port can use an MTU of 4096 */
	data[43] = 0x40;		/* VL 0 to 7 are operational */
	/* PortInfoExtended is supported; by a switch also SwitchPortStateTable. */
	data[61] = 0x02 | (!port && node->type == TYPE_SWITCH ? 0x08 : 0);
	data[62] = up ? 0x23 : 0x03;	/* EDR active; FDR, EDR supported */
	data[63] = 0x03;
}

/*
 * The states of 128 ports, four bits each, the first of two ports in the upper half of an octet.
 * Port 0 is active here. This was not seen on hardware.
 */
static void port_states(const struct mock_node *node, u32 block, u8 *data)
{
	u32 port;

	for (port = 128 * block; port <= node->ports && port < 128 * (block + 1); port++)
		data[port % 128 / 2] |= (is_up(node, port) ? 4 : 1) << (port % 2 ? 0 : 4);
}

/* The ports to the 64 LIDs of a block; 255 where no device has the LID. */
static void forwarding(const struct mock_node *node, u32 block, u8 *data)
{
	u32 i;

	for (i = 0; i < 64; i++)
		data[i] = fabric_port_to(node, min_t(u32, 64 * block + i, U16_MAX));
}

/* The VL of each SL, four bits each: the SL modulo the 8 VLs of a port. */
static void vls(u8 *data)
{
	u8 sl;

	for (sl = 0; sl < SLS; sl += 2)
		data[sl / 2] = sl % 8 << 4 | (sl + 1) % 8;
}

static void sm_info(const struct mock_node *node, u8 *data)
{
	static u32 actions;

	put_unaligned_be64(node->guid, data);
	put_unaligned_be32(++actions, data + 16);
	data[20] = node->manager;
}

static void manage(const struct mock_node *node, u8 in_port, u8 *mad)
{
	u32 modifier = get_unaligned_be32(mad + 20);
	u8 *data = mad + DATA_AT;
	u16 id = attribute(mad);

	memset(data, 0, 64);
	if ((id == 0x15 || id == 0x33) && modifier > node->ports) {
		status(mad, STATUS_INVALID);
		return;
	}
	switch (id) {
	case 0x10:
		memcpy(data, node->name, sizeof(node->name));
		return;
	case 0x11:
		node_info(node, in_port, data);
		return;
	case 0x12:
		if (node->type != TYPE_SWITCH)
			break;
		switch_info(node, data);
		return;
	case 0x15:
		/* An HCA has no port 0: it means the port that received the request. */
		port_info(node, modifier || node->type == TYPE_SWITCH ? modifier : in_port, in_port, data);
		return;
	case 0x17:
		if (node->type != TYPE_SWITCH)
			break;
		vls(data);
		return;
	case 0x19:
		if (node->type != TYPE_SWITCH)
			break;
		forwarding(node, modifier, data);
		return;
	case 0x20:
		if (!node->manages)
			break;
		sm_info(node, data);
		return;
	case 0x33:
		put_unaligned_be32(1, data);	/* the mode of FEC is reported */
		put_unaligned_be16(node->rs_fec ? 2 : 0, data + 4);
		return;
	case 0x34:
		if (node->type != TYPE_SWITCH)
			break;
		statistics.state_tables++;
		port_states(node, modifier & 1, data);
		return;
	}
	status(mad, STATUS_UNSUPPORTED);
}

/*
 * Follows a directed route: from the HCA, or, if DrSLID is a LID, from the switch at the destination
 * LID (IBA volume 1, 14.2.2). `in_port` is set to the port by which the request arrives. Returns
 * NULL if the route leaves the fabric.
 */
static const struct mock_node *route(struct mock_hca *hca, u16 dlid, u8 *mad, u8 *in_port)
{
	const struct mock_node *node = fabric_node(hca->node);
	u16 source = get_unaligned_be16(mad + 32);
	u8 *initial = mad + 128, *back = mad + 192;
	u8 hops = mad[7], hop;

	if (hops > 63 || get_unaligned_be16(mad + 34) != PERMISSIVE)
		return NULL;
	if (source != PERMISSIVE) {
		/* Without the LID of the sender, the switch cannot return the reply. */
		if (source != node->lid || mad[6])
			return NULL;
		node = fabric_by_lid(dlid);
		if (!node || node->type != TYPE_SWITCH)
			return NULL;
	}
	*in_port = node->type == TYPE_SWITCH ? 0 : 1;
	for (hop = 1; hop <= hops; hop++) {
		u8 out = initial[hop];

		if ((hop > 1 && node->type != TYPE_SWITCH) || !out || out > node->ports || !is_up(node, out))
			return NULL;
		*in_port = node->ends[out].port;
		node = fabric_node(node->ends[out].node);
		back[hop] = *in_port;
	}
	return node;
}

/* Subnet administration: PathRecord by GUID, and subscriptions to traps */

static void find_path(u8 *mad)
{
	const struct mock_node *to = fabric_by_guid(get_unaligned_be64(mad + 72));
	const struct mock_node *from = fabric_by_guid(get_unaligned_be64(mad + 88));

	if (!to || !from) {
		status(mad, STATUS_NO_RECORDS);
		return;
	}
	put_unaligned_be16(to->lid, mad + 96);
	put_unaligned_be16(from->lid, mad + 98);
	mad[105] = 0x81;
	put_unaligned_be16(0xffff, mad + 106);
	put_unaligned_be16(faults.path_sl & 0xf, mad + 108);
	mad[110] = 0x85;		/* MTU 4096 */
	mad[111] = 0x80 | 16;		/* 100 Gb/s */
	mad[112] = 0x80 | 18;
}

/* Returns false if the subnet manager does not answer. */
static bool administer(struct mock_hca *hca, struct packet *packet)
{
	u8 *mad = packet->mad, method = mad[3];

	mad[3] = METHOD_GET_RESP;
	if (method == METHOD_REPORT_RESP) {
		wire_acknowledge(packet->qp, mad);
		return false;
	}
	if (method == METHOD_SET && attribute(mad) == 0x03)
		status(mad, traps_inform(hca, packet));
	else if (method == METHOD_GET && attribute(mad) == 0x35)
		find_path(mad);
	else
		status(mad, STATUS_UNSUPPORTED);
	return true;
}

/* Turns a request into its reply. Returns false if no device answers. */
bool answer(struct mock_hca *hca, u16 dlid, struct packet *packet)
{
	const struct mock_node *node = fabric_by_lid(dlid);
	u8 *mad = packet->mad, in_port;
	bool by_lid, clear = clears(mad), is_smp = packet->class == CLASS_SMP;

	if (planarized && is_smp != (hca->index == 1))
		return false;
	if (mad[1] == IB_MGMT_CLASS_SUBN_ADM)
		return dlid == sm_lid && node && node->manages && administer(hca, packet);
	statistics.vendor_sets += mad[1] == MGMT_CLASS_VENDOR && mad[3] != METHOD_GET;
	if (mad[3] != METHOD_GET && !clear)
		return false;
	mad[3] = METHOD_GET_RESP;
	switch (mad[1]) {
	case IB_MGMT_CLASS_PERF_MGMT:
		if (!node)
			return false;
		perform(node, dlid, clear, mad);
		return true;
	case IB_MGMT_CLASS_SUBN_LID_ROUTED:
		if (!node || directed_only)
			return false;
		manage(node, node->type == TYPE_SWITCH ? 0 : 1, mad);
		return true;
	case IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE:
		by_lid = get_unaligned_be16(mad + 32) != PERMISSIVE;
		statistics.directed += by_lid;
		if (directed_only && by_lid)
			return false;
		node = route(hca, dlid, mad, &in_port);
		if (!node || (faults.classes & (1 << CLASS_SMP) && hits(faults.drop, node->lid)))
			return false;
		manage(node, in_port, mad);
		status(mad, DIRECTION | get_unaligned_be16(mad + 4));
		/*
		 * The hop pointer at the end of the way back. If a switch returns the reply by LID,
		 * it is 0: the kernel drops such a reply with 1. The source is then this switch.
		 */
		mad[6] = !by_lid;
		if (!by_lid)
			packet->slid = PERMISSIVE;
		return true;
	case MGMT_CLASS_VENDOR:
		if (!node)
			return false;
		vendor_answer(node, mad);
		return true;
	default:
		return false;
	}
}
