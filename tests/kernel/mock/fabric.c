// SPDX-License-Identifier: GPL-2.0
/*
 * Switches, HCAs and links: a fat tree of two levels. Each leaf switch has `hosts` hosts and one
 * link to each spine switch. LIDs count from 1: leaves, spines, hosts. The mock HCAs are the first
 * host of the first leaf and the first host of the second leaf.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "mock.h"

static uint leaves = 4;
module_param(leaves, uint, 0444);
MODULE_PARM_DESC(leaves, "number of leaf switches");
static uint spines = 2;
module_param(spines, uint, 0444);
MODULE_PARM_DESC(spines, "number of spine switches");
static uint hosts = 4;
module_param(hosts, uint, 0444);
MODULE_PARM_DESC(hosts, "number of hosts of each leaf switch");

#define LEAF_GUID	0x0002c90000010000ULL
#define SPINE_GUID	0x0002c90000020000ULL
#define HOST_GUID	0x0002c90000100000ULL

static struct mock_node *nodes;
static u16 node_count;
static u16 by_lid[LIDS];	/* index + 1 */

struct mock_node *fabric_node(u16 index)
{
	return index < node_count ? &nodes[index] : NULL;
}

struct mock_node *fabric_by_lid(u16 lid)
{
	if (lid >= LIDS)
		return NULL;
	if (!by_lid[lid] && lid > ALIAS)
		lid -= ALIAS;
	return by_lid[lid] ? &nodes[by_lid[lid] - 1] : NULL;
}

struct mock_node *fabric_by_guid(u64 guid)
{
	u16 i;

	for (i = 0; i < node_count; i++)
		if (nodes[i].guid == guid)
			return &nodes[i];
	return NULL;
}

u16 fabric_own_node(int hca)
{
	return leaves + spines + hca * hosts;
}

u16 fabric_top_lid(void)
{
	u16 i, top = 0;

	for (i = 0; i < node_count; i++)
		top = max(top, nodes[i].lid);
	return top;
}

/* Returns the first port with a link to a device, or 0. */
static u8 port_with(const struct mock_node *node, const struct mock_node *peer)
{
	u8 port;

	for (port = 1; port <= node->ports; port++)
		if (node->ends[port].node == peer - nodes && !node->ends[port].down)
			return port;
	return 0;
}

/*
 * Returns the port by which a switch forwards to a LID: 0 for its own LID, and 255 for none. A host
 * is behind the leaf switch at its port. Other leaves are reached by the spine switch that the LID
 * selects, and other spines by the first leaf.
 */
u8 fabric_port_to(const struct mock_node *from, u16 lid)
{
	const struct mock_node *to = lid < LIDS && by_lid[lid] ? &nodes[by_lid[lid] - 1] : NULL, *via;
	u8 port;

	if (!to)
		return 255;
	if (to == from)
		return 0;
	port = port_with(from, to);
	if (!port && to->type == TYPE_HCA && to->ends[1].node != NO_NODE)
		port = port_with(from, &nodes[to->ends[1].node]);
	if (!port) {
		via = from - nodes < leaves ? &nodes[leaves + lid % spines] : &nodes[0];
		port = port_with(from, via);
	}
	return port ? port : 255;
}

/* A device that had the LID before gets the old LID of this one. */
int fabric_set_lid(struct mock_node *node, u16 lid)
{
	struct mock_node *other;

	if (!lid || lid >= ALIAS)
		return -EINVAL;
	other = fabric_by_lid(lid);
	by_lid[node->lid] = 0;
	if (other) {
		other->lid = node->lid;
		by_lid[other->lid] = other - nodes + 1;
	}
	node->lid = lid;
	by_lid[lid] = node - nodes + 1;
	return 0;
}

int fabric_set_link(u16 lid, u8 port, bool down)
{
	struct mock_node *node = fabric_by_lid(lid);
	struct link_end *end;

	if (!node || !port || port > node->ports || node->ends[port].node == NO_NODE)
		return -EINVAL;
	end = &node->ends[port];
	end->down = down;
	nodes[end->node].ends[end->port].down = down;
	return 0;
}

static void connect(u16 a, u8 a_port, u16 b, u8 b_port)
{
	nodes[a].ends[a_port] = (struct link_end){ .node = b, .port = b_port };
	nodes[b].ends[b_port] = (struct link_end){ .node = a, .port = a_port };
}

/* Exchanges the cables of two ports. */
int fabric_exchange(u16 a_lid, u8 a_port, u16 b_lid, u8 b_port)
{
	struct mock_node *a = fabric_by_lid(a_lid), *b = fabric_by_lid(b_lid);
	struct link_end far_a, far_b;

	if (!a || !b || !a_port || !b_port || a_port > a->ports || b_port > b->ports)
		return -EINVAL;
	far_a = a->ends[a_port];
	far_b = b->ends[b_port];
	if (far_a.node == NO_NODE || far_b.node == NO_NODE || far_a.node == b - nodes || far_b.node == a - nodes)
		return -EINVAL;
	connect(a - nodes, a_port, far_b.node, far_b.port);
	connect(b - nodes, b_port, far_a.node, far_a.port);
	return 0;
}

static int add(u8 type, u8 ports, u64 guid)
{
	struct mock_node *node = &nodes[node_count];
	int port;

	node->ends = kcalloc(ports + 1, sizeof(*node->ends), GFP_KERNEL);
	if (!node->ends)
		return -ENOMEM;
	for (port = 0; port <= ports; port++)
		node->ends[port].node = NO_NODE;
	node->type = type;
	node->ports = ports;
	node->guid = guid;
	node->lid = node_count + 1;
	by_lid[node->lid] = ++node_count;
	return 0;
}

int fabric_build(int hcas)
{
	u32 total = leaves + spines + leaves * hosts;
	int error = 0;
	uint i, j;

	/* One more port on each switch has no cable. */
	if (!leaves || !hosts || hosts + spines > 253 || leaves > 253 || total >= ALIAS || hcas > leaves)
		return -EINVAL;
	nodes = kvcalloc(total, sizeof(*nodes), GFP_KERNEL);
	if (!nodes)
		return -ENOMEM;
	for (i = 0; i < leaves && !error; i++) {
		error = add(TYPE_SWITCH, hosts + spines + 1, LEAF_GUID + i);
		snprintf(nodes[i].name, sizeof(nodes[i].name), "leaf%02u", i + 1);
	}
	for (i = 0; i < spines && !error; i++) {
		error = add(TYPE_SWITCH, leaves + 1, SPINE_GUID + i);
		nodes[leaves + i].rs_fec = true;
		snprintf(nodes[leaves + i].name, sizeof(nodes[0].name), "spine%02u", i + 1);
	}
	for (i = 0; i < leaves * hosts && !error; i++) {
		error = add(TYPE_HCA, 1, HOST_GUID + i);
		snprintf(nodes[leaves + spines + i].name, sizeof(nodes[0].name), "node%04u mock0", i + 1);
	}
	if (error)
		return error;
	for (i = 0; i < leaves; i++) {
		for (j = 0; j < hosts; j++)
			connect(i, j + 1, leaves + spines + i * hosts + j, 1);
		for (j = 0; j < spines; j++)
			connect(i, hosts + j + 1, leaves + j, i + 1);
	}
	return 0;
}

void fabric_free(void)
{
	u16 i;

	for (i = 0; i < node_count; i++)
		kfree(nodes[i].ends);
	kvfree(nodes);
}
