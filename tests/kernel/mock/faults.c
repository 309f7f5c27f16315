// SPDX-License-Identifier: GPL-2.0
/* The faults and the statistics, as files in /sys/module/ibnet_mock/parameters. */
#include <linux/module.h>
#include <linux/string.h>

#include "mock.h"

struct faults faults = { .pkey = 0x8001, .trend = 1, .classes = 1 << CLASS_PMA, .redirect_form = 1, .repeat_us = 200000 };
struct statistics statistics;

/* A list of LIDs: "3,5-7", or an empty line. */
static int set_lids(const char *value, const struct kernel_param *param)
{
	unsigned long *parsed = bitmap_zalloc(LIDS, GFP_KERNEL), flags;
	int error;

	if (!parsed)
		return -ENOMEM;
	error = bitmap_parselist(value, parsed, LIDS);
	if (!error) {
		spin_lock_irqsave(&wire_lock, flags);
		bitmap_copy(param->arg, parsed, LIDS);
		spin_unlock_irqrestore(&wire_lock, flags);
	}
	bitmap_free(parsed);
	return error;
}

static int get_lids(char *buffer, const struct kernel_param *param)
{
	return scnprintf(buffer, PAGE_SIZE, "%*pbl\n", LIDS, param->arg);
}

static const struct kernel_param_ops lids = { .set = set_lids, .get = get_lids };

#define LID_LIST(name, field, text)				\
	module_param_cb(name, &lids, faults.field, 0644);	\
	MODULE_PARM_DESC(name, text)
#define NUMBER(name, type, text)				\
	module_param_named(name, faults.name, type, 0644);	\
	MODULE_PARM_DESC(name, text)
#define STATISTIC(name, field, text)				\
	module_param_named(name, statistics.field, ulong, 0644);\
	MODULE_PARM_DESC(name, text)

LID_LIST(drop_lids, drop, "LIDs that drop requests");
LID_LIST(delay_lids, delay, "LIDs that answer late");
LID_LIST(duplicate_lids, duplicate, "LIDs that answer twice");
LID_LIST(wrong_source_lids, wrong_source, "LIDs that answer with the source LID of the SM");
LID_LIST(fail_send_lids, fail_send, "LIDs to which sends complete with an error");
LID_LIST(redirect_lids, redirect, "LIDs that redirect to LID + 0x4000");
LID_LIST(need_pkey_lids, need_pkey, "LIDs that answer only in the partition `pkey`");
LID_LIST(moving_lids, moving, "LIDs whose traffic counters change by `trend` at each reply");
NUMBER(trend, int, "change of the traffic counters at each reply of moving_lids");
NUMBER(drop_every, uint, "each n-th of the requests in drop_kind is lost");
NUMBER(drop_kind, uint, "0: all requests; 1: requests for counters; 2: all others, such as ClassPortInfo");
NUMBER(delay_us, uint, "delay of the LIDs in delay_lids");
NUMBER(service_us, uint, "delay of all replies");
NUMBER(redirect_form, uint, "1: the attribute ID of the request; 2: that of ClassPortInfo");
NUMBER(pkey, uint, "P_Key of the LIDs in need_pkey_lids");
NUMBER(classes, uint, "classes with faults: 1 PMA, 2 SMP, 4 SA, 16 registers, or a sum");
NUMBER(step, ulong, "added to the 64-bit traffic counters and those by service level");
NUMBER(register_image, uint, "selects the random octets of all registers");
NUMBER(path_sl, uint, "SL in path records");
NUMBER(refuse_inform, uint, "status of the answers to InformInfo; 0 accepts the subscription");
NUMBER(ignore_responses, uint, "number of ReportResps that are lost from now on");
NUMBER(repeat_us, uint, "time after which a Report without a ReportResp is sent again");
STATISTIC(pma_requests, requests[CLASS_PMA], "PMA requests that were sent");
STATISTIC(smp_requests, requests[CLASS_SMP], "SMPs that were sent");
STATISTIC(sa_requests, requests[CLASS_SA], "SA queries that were sent");
STATISTIC(vendor_requests, requests[CLASS_VENDOR], "requests of class 0x0a that were sent");
STATISTIC(pma_peak, peak[CLASS_PMA], "most PMA replies that were delayed at once");
STATISTIC(smp_peak, peak[CLASS_SMP], "most SMPs that were delayed at once");
STATISTIC(sa_peak, peak[CLASS_SA], "most SA replies that were delayed at once");
STATISTIC(dropped, dropped, "requests that a fault dropped");
STATISTIC(duplicated, duplicated, "replies that were sent twice");
STATISTIC(failed, failed, "sends that completed with an error");
STATISTIC(mismatched, mismatched, "requests in the wrong partition");
STATISTIC(redirected, redirected, "redirects");
STATISTIC(overrun, overrun, "replies without a receive buffer");
STATISTIC(directed, directed, "requests by the LID of a switch, and from there by port");
STATISTIC(cleared, cleared, "requests that cleared counters");
STATISTIC(state_tables, state_tables, "requests for the states of all ports of a switch");
STATISTIC(registers, registers, "requests for a register");
STATISTIC(vendor_sets, vendor_sets, "requests of class 0x0a with a method but Get");
STATISTIC(vendor_acts, vendor_acts, "bits in requests for a register that would change a device");
STATISTIC(informs, informs, "requests for a subscription to a trap");
STATISTIC(withdrawals, withdrawals, "requests to end a subscription");
STATISTIC(subscriptions, subscriptions, "subscriptions that exist now");
STATISTIC(reports, reports, "Reports that were sent, with repetitions");
STATISTIC(responses, responses, "ReportResps that answered a Report");
STATISTIC(stray_responses, stray_responses, "ReportResps that answered no Report");
