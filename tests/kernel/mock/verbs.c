// SPDX-License-Identifier: GPL-2.0
/*
 * The verbs of the mock HCA. ib_mad uses two queue pairs with completion queues; the other
 * mandatory verbs exist because ib_core attaches no client to a device without them.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "mock.h"

/* Kernels of the backports have other types in three verbs. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
#define CREATE_CQ_CONTEXT	struct uverbs_attr_bundle *context
#else
#define CREATE_CQ_CONTEXT	struct ib_udata *context
#endif
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
#define USER_MR_HANDLE		struct ib_dmah *handle,
#else
#define USER_MR_HANDLE
#endif

static struct mock_hca *to_hca(struct ib_device *ib)
{
	return container_of(ib, struct mock_hca, ib);
}

/* Device and port */

static int query_device(struct ib_device *ib, struct ib_device_attr *attr, struct ib_udata *udata)
{
	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = 1ULL << 32;
	attr->sys_image_guid = ib->node_guid;
	attr->vendor_id = 0x2c9;
	attr->vendor_part_id = 0x101b;
	/* Without this key every protection domain needs a memory region. */
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	attr->max_qp = 16;
	attr->max_qp_wr = 4096;
	attr->max_send_sge = 4;
	attr->max_recv_sge = 4;
	attr->max_cq = 16;
	attr->max_cqe = 16384;
	attr->max_pd = 16;
	attr->max_ah = 65536;
	attr->max_pkeys = PKEYS;
	return 0;
}

static int query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	struct mock_hca *hca = to_hca(ib);

	attr->state = hca->up ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->phys_state = hca->up ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_POLLING;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_4096;
	attr->port_cap_flags = planarized && !hca->index ? IB_PORT_SM_DISABLED : 0;
	attr->gid_tbl_len = 1;
	attr->pkey_tbl_len = PKEYS;
	attr->max_msg_sz = 4096;
	attr->lid = fabric_node(hca->node)->lid;
	attr->sm_lid = sm_lid;
	attr->max_vl_num = 4;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_EDR;
	return 0;
}

static int get_port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = 1;
	immutable->pkey_tbl_len = PKEYS;
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_IB;
	/* Linux 6.1 opens no device without general management, so the SMI device has it, but no answer. */
	if (planarized && !to_hca(ib)->index)
		immutable->core_cap_flags &= ~RDMA_CORE_CAP_IB_SMI;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static int query_gid(struct ib_device *ib, u32 port, int index, union ib_gid *gid)
{
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	gid->global.interface_id = ib->node_guid;
	return 0;
}

static int query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	if (index >= PKEYS)
		return -EINVAL;
	*pkey = pkey_table[index];
	return 0;
}

static void get_dev_fw_str(struct ib_device *ib, char *text)
{
	strscpy(text, "20.31.1014", IB_FW_VERSION_NAME_MAX);
}

/* Objects without state */

static int alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static int dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return 0;
}

static struct ib_mr *get_dma_mr(struct ib_pd *pd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static struct ib_mr *reg_user_mr(struct ib_pd *pd, u64 start, u64 length, u64 address, int access,
				 USER_MR_HANDLE struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static int dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	return 0;
}

/* Address handles: ib_mad compares that of a request with the reply */

static int create_ah(struct ib_ah *ib, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	container_of(ib, struct mock_ah, ib)->attr = *init->ah_attr;
	return 0;
}

static int query_ah(struct ib_ah *ib, struct rdma_ah_attr *attr)
{
	*attr = container_of(ib, struct mock_ah, ib)->attr;
	return 0;
}

static int destroy_ah(struct ib_ah *ib, u32 flags)
{
	return 0;
}

/* Completion queues */

static int create_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr, CREATE_CQ_CONTEXT)
{
	struct mock_cq *cq = container_of(ib, struct mock_cq, ib);

	cq->ring = kvcalloc(attr->cqe, sizeof(*cq->ring), GFP_KERNEL);
	if (!cq->ring)
		return -ENOMEM;
	cq->size = attr->cqe;
	ib->cqe = attr->cqe;
	return 0;
}

static int destroy_cq(struct ib_cq *ib, struct ib_udata *udata)
{
	kvfree(container_of(ib, struct mock_cq, ib)->ring);
	return 0;
}

/* The handler only queues work, so it can be called under the lock. */
void add_completion(struct mock_cq *cq, const struct ib_wc *wc)
{
	if (WARN_ON_ONCE(cq->count == cq->size))
		return;
	cq->ring[(cq->head + cq->count++) % cq->size] = *wc;
	if (cq->armed) {
		cq->armed = false;
		cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
	}
}

static int poll_cq(struct ib_cq *ib, int entries, struct ib_wc *wc)
{
	struct mock_cq *cq = container_of(ib, struct mock_cq, ib);
	unsigned long flags;
	int taken;

	spin_lock_irqsave(&wire_lock, flags);
	for (taken = 0; taken < entries && cq->count; taken++) {
		wc[taken] = cq->ring[cq->head];
		cq->head = (cq->head + 1) % cq->size;
		cq->count--;
	}
	spin_unlock_irqrestore(&wire_lock, flags);
	return taken;
}

static int req_notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags notify)
{
	struct mock_cq *cq = container_of(ib, struct mock_cq, ib);
	unsigned long flags;
	int missed;

	spin_lock_irqsave(&wire_lock, flags);
	cq->armed = true;
	missed = (notify & IB_CQ_REPORT_MISSED_EVENTS) && cq->count;
	spin_unlock_irqrestore(&wire_lock, flags);
	return missed;
}

/* Queue pairs */

static int create_qp(struct ib_qp *ib, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct mock_qp *qp = container_of(ib, struct mock_qp, ib);

	if (init->qp_type != IB_QPT_SMI && init->qp_type != IB_QPT_GSI)
		return -EOPNOTSUPP;
	qp->size = init->cap.max_recv_wr;
	qp->ring = kvcalloc(qp->size, sizeof(*qp->ring), GFP_KERNEL);
	if (!qp->ring)
		return -ENOMEM;
	ib->qp_num = init->qp_type == IB_QPT_SMI ? 0 : 1;
	return 0;
}

static int modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	return 0;
}

static int destroy_qp(struct ib_qp *ib, struct ib_udata *udata)
{
	struct mock_qp *qp = container_of(ib, struct mock_qp, ib);

	wire_forget(qp);
	kvfree(qp->ring);
	return 0;
}

static int post_send(struct ib_qp *ib, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct mock_qp *qp = container_of(ib, struct mock_qp, ib);

	for (; wr; wr = wr->next) {
		int error = wire_send(qp, ud_wr(wr));

		if (error) {
			*bad = wr;
			return error;
		}
	}
	return 0;
}

static int post_recv(struct ib_qp *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct mock_qp *qp = container_of(ib, struct mock_qp, ib);
	unsigned long flags;
	int error = 0;

	spin_lock_irqsave(&wire_lock, flags);
	for (; wr; wr = wr->next) {
		if (qp->count == qp->size || wr->num_sge != 1 || wr->sg_list[0].length < 40 + MAD_OCTETS) {
			*bad = wr;
			error = -EINVAL;
			break;
		}
		/* A device without DMA: an address is a pointer. */
		qp->ring[(qp->head + qp->count++) % qp->size] = (struct mock_buffer){
			.cqe = wr->wr_cqe, .data = (u8 *)(uintptr_t)wr->sg_list[0].addr,
		};
	}
	spin_unlock_irqrestore(&wire_lock, flags);
	return error;
}

const struct ib_device_ops mock_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = 1,
	.query_device = query_device,
	.query_port = query_port,
	.get_port_immutable = get_port_immutable,
	.query_gid = query_gid,
	.query_pkey = query_pkey,
	.get_dev_fw_str = get_dev_fw_str,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.get_dma_mr = get_dma_mr,
	.reg_user_mr = reg_user_mr,
	.dereg_mr = dereg_mr,
	.create_ah = create_ah,
	.query_ah = query_ah,
	.destroy_ah = destroy_ah,
	.create_cq = create_cq,
	.destroy_cq = destroy_cq,
	.poll_cq = poll_cq,
	.req_notify_cq = req_notify_cq,
	.create_qp = create_qp,
	.modify_qp = modify_qp,
	.destroy_qp = destroy_qp,
	.post_send = post_send,
	.post_recv = post_recv,
	INIT_RDMA_OBJ_SIZE(ib_ah, mock_ah, ib),
	INIT_RDMA_OBJ_SIZE(ib_cq, mock_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, mock_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, mock_qp, ib),
};
