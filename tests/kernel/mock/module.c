// SPDX-License-Identifier: GPL-2.0
/* HCAs that appear and disappear, port events, and the commands that cause them. */
#include <linux/module.h>
#include <linux/mutex.h>

#include "mock.h"

#define SM_MASTER	3	/* SMState */

static uint hcas = 1;
module_param(hcas, uint, 0444);
MODULE_PARM_DESC(hcas, "number of HCAs: 1 or 2");

bool planarized;
module_param(planarized, bool, 0444);
MODULE_PARM_DESC(planarized, "the second HCA is the SMI device of the first one; SMPs by LID are not answered");

bool directed_only;
module_param(directed_only, bool, 0444);
MODULE_PARM_DESC(directed_only, "SMPs by LID are not answered");

static unsigned long long plugged_ns;
module_param(plugged_ns, ullong, 0444);
MODULE_PARM_DESC(plugged_ns, "time at which the last HCA appeared, in nanoseconds since 1970");

static unsigned long long changed_ns;
module_param(changed_ns, ullong, 0444);
MODULE_PARM_DESC(changed_ns, "time at which a link or a port last changed, in nanoseconds since 1970");

u16 sm_lid = 1;
u16 pkey_table[PKEYS] = { 0xffff, 0x8001 };

static struct mock_hca *plugged[MAX_HCAS];
static DEFINE_MUTEX(plug_lock);

static int plug(int index, const char *name)
{
	u16 own = fabric_own_node(planarized ? 0 : index);
	struct mock_node *node = fabric_node(own);
	struct mock_hca *hca;
	int error;

	if (plugged[index])
		return -EEXIST;
	hca = ib_alloc_device(mock_hca, ib);
	if (!hca)
		return -ENOMEM;
	hca->index = index;
	hca->node = own;
	hca->up = true;
	hca->ib.node_type = RDMA_NODE_IB_CA;
	hca->ib.node_guid = cpu_to_be64(node->guid);
	hca->ib.phys_port_cnt = 1;
	hca->ib.num_comp_vectors = 1;
	strscpy(hca->ib.node_desc, node->name, sizeof(hca->ib.node_desc));
	ib_set_device_ops(&hca->ib, &mock_ops);
	error = ib_register_device(&hca->ib, name, NULL);
	if (error) {
		ib_dealloc_device(&hca->ib);
		return error;
	}
	plugged[index] = hca;
	plugged_ns = ktime_get_real_ns();
	return 0;
}

static int unplug(int index)
{
	if (!plugged[index])
		return -ENODEV;
	ib_unregister_device(&plugged[index]->ib);
	ib_dealloc_device(&plugged[index]->ib);
	plugged[index] = NULL;
	return 0;
}

static void event(struct mock_hca *hca, enum ib_event_type type)
{
	struct ib_event event = { .device = &hca->ib, .element.port_num = 1, .event = type };

	ib_dispatch_event(&event);
}

static void all_see(enum ib_event_type type)
{
	int i;

	for (i = 0; i < MAX_HCAS; i++)
		if (plugged[i])
			event(plugged[i], type);
}

static int change_lid(u32 from, u32 to)
{
	struct mock_node *node;
	unsigned long flags;
	int error = -EINVAL;

	spin_lock_irqsave(&wire_lock, flags);
	node = fabric_by_lid(from);
	if (node)
		error = fabric_set_lid(node, to);
	spin_unlock_irqrestore(&wire_lock, flags);
	if (!error)
		all_see(IB_EVENT_LID_CHANGE);
	return error;
}

/* The switches at both ends of a link report it. */
static void report_link(u16 lid, u8 port)
{
	const struct mock_node *node = fabric_by_lid(lid), *peer = fabric_node(node->ends[port].node);

	if (node->type == TYPE_SWITCH)
		traps_forward(TRAP_LINK, node);
	if (peer->type == TYPE_SWITCH)
		traps_forward(TRAP_LINK, peer);
}

static int change_link(u32 lid, u32 port, bool down)
{
	unsigned long flags;
	int error;

	spin_lock_irqsave(&wire_lock, flags);
	error = fabric_set_link(lid, port, down);
	if (!error) {
		changed_ns = ktime_get_real_ns();
		report_link(lid, port);
	}
	spin_unlock_irqrestore(&wire_lock, flags);
	return error;
}

/* The capabilities of a port change, by name only: its attributes stay as they are. */
static int change_capabilities(u32 lid)
{
	const struct mock_node *node;
	unsigned long flags;

	spin_lock_irqsave(&wire_lock, flags);
	node = fabric_by_lid(lid);
	if (node) {
		changed_ns = ktime_get_real_ns();
		traps_forward(TRAP_PORT, node);
	}
	spin_unlock_irqrestore(&wire_lock, flags);
	return node ? 0 : -EINVAL;
}

static int exchange(u32 a, u32 a_port, u32 b, u32 b_port)
{
	unsigned long flags;
	int error;

	spin_lock_irqsave(&wire_lock, flags);
	error = fabric_exchange(a, a_port, b, b_port);
	spin_unlock_irqrestore(&wire_lock, flags);
	return error;
}

/*
 * Starts, changes or ends a subnet manager. One in the state MASTER becomes that of all ports. It
 * does not have the subscriptions of another one.
 */
static int change_manager(u32 lid, bool runs, u8 priority, u8 state)
{
	struct mock_node *node;
	unsigned long flags;
	bool is_new_master;

	spin_lock_irqsave(&wire_lock, flags);
	node = fabric_by_lid(lid);
	is_new_master = node && runs && state == SM_MASTER && lid != sm_lid;
	if (node) {
		node->manages = runs;
		node->manager = priority << 4 | state;
	}
	if (is_new_master)
		sm_lid = lid;
	if (is_new_master || (lid == sm_lid && !runs))
		traps_forget_all();
	spin_unlock_irqrestore(&wire_lock, flags);
	if (is_new_master)
		all_see(IB_EVENT_SM_CHANGE);
	return node ? 0 : -EINVAL;
}

static int change_port(int index, bool up)
{
	if (!plugged[index])
		return -ENODEV;
	plugged[index]->up = up;
	event(plugged[index], up ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR);
	return 0;
}

static int execute(const char *line)
{
	char name[16] = "mock%d";
	u32 a, b, c, d;

	if (sscanf(line, "plug %u %15s", &a, name) >= 1 && a < MAX_HCAS)
		return plug(a, name);
	if (sscanf(line, "unplug %u", &a) == 1 && a < MAX_HCAS)
		return unplug(a);
	if (sscanf(line, "up %u", &a) == 1 && a < MAX_HCAS)
		return change_port(a, true);
	if (sscanf(line, "down %u", &a) == 1 && a < MAX_HCAS)
		return change_port(a, false);
	if (sscanf(line, "lid %u %u", &a, &b) == 2)
		return change_lid(a, b);
	if (sscanf(line, "link_down %u %u", &a, &b) == 2)
		return change_link(a, b, true);
	if (sscanf(line, "link_up %u %u", &a, &b) == 2)
		return change_link(a, b, false);
	if (sscanf(line, "exchange %u %u %u %u", &a, &b, &c, &d) == 4)
		return exchange(a, b, c, d);
	if (sscanf(line, "capabilities %u", &a) == 1)
		return change_capabilities(a);
	/* Another subnet manager is at once the only one. */
	if (sscanf(line, "sm %u", &a) == 1)
		return a == sm_lid ? -EINVAL : change_manager(sm_lid, false, 0, 0) ?: change_manager(a, true, 15, SM_MASTER);
	if (sscanf(line, "manager %u %u %u", &a, &b, &c) == 3 && b < 16 && c < 4)
		return change_manager(a, true, b, c);
	if (sscanf(line, "no_manager %u", &a) == 1)
		return change_manager(a, false, 0, 0);
	if (sscanf(line, "pkey %u %x", &a, &b) == 2 && a < PKEYS) {
		pkey_table[a] = b;
		all_see(IB_EVENT_PKEY_CHANGE);
		return 0;
	}
	return -EINVAL;
}

static int command(const char *line, const struct kernel_param *param)
{
	int error;

	mutex_lock(&plug_lock);
	error = execute(line);
	mutex_unlock(&plug_lock);
	return error;
}

static const struct kernel_param_ops commands = { .set = command };
module_param_cb(command, &commands, NULL, 0200);
MODULE_PARM_DESC(command, "plug HCA [NAME], unplug HCA, up HCA, down HCA, lid FROM TO, sm LID, "
			  "link_down LID PORT, link_up LID PORT, pkey INDEX HEX, exchange LID PORT LID PORT, "
			  "capabilities LID, manager LID PRIORITY STATE, no_manager LID");

static int __init start(void)
{
	int error = hcas >= 1 && hcas + planarized <= MAX_HCAS ? fabric_build(hcas) : -EINVAL;
	uint i;

	directed_only |= planarized;
	if (!error)
		error = change_manager(sm_lid, true, 15, SM_MASTER);
	wire_start();
	for (i = 0; i < hcas && !error; i++)
		error = plug(i, "mock%d");
	if (planarized && !error)
		error = plug(1, "smi%d");
	if (error)
		fabric_free();
	return error;
}

static void __exit stop(void)
{
	int i;

	for (i = 0; i < MAX_HCAS; i++)
		unplug(i);
	wire_stop();
	fabric_free();
}

module_init(start);
module_exit(stop);
MODULE_DESCRIPTION("mock HCA for the tests of ibnet");
MODULE_LICENSE("GPL");
