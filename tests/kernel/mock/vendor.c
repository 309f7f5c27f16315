// SPDX-License-Identifier: GPL-2.0
/*
 * Vendor-specific management, class 0x0A: GeneralInfo and the registers of a device. A register is
 * an image of random octets, which `register_image` selects: the outputs of two programs that read
 * it are compared. Only Get is answered. Other methods, and bits of a Get that act, are counted.
 */
#include <linux/string.h>

#include "mock.h"
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

#define CLASS_PORT_INFO		0x01
#define GENERAL_INFO		0x17
#define CONFIG_SPACE		0x50
#define REGISTER_GMP		0x51
#define DATA			32	/* behind VS_Key */
#define BLOCK			36
#define BLOCK_OCTETS		220
#define DEVICE_ID_AT		0x0f010014	/* modifier: one dword at the address 0xf0014 of the chip */
#define QUANTUM			0x24d	/* the ID there; 0xd2f0 elsewhere */
#define CONNECTX6		0x20f	/* the ID there; 0x101b elsewhere */
#define STATUS_UNSUPPORTED	0x000c
#define STATUS_NO_REGISTER	0x0014

/* The bits of a register that a reply repeats from the request: its first two dwords. */
static const struct selection {
	u16 id;
	u32 mask[2];
	u32 acts[3];	/* bits of the first three dwords that act, or that act with Set */
} selections[] = {
	{ 0x5008, { 0xffffffff, 0xffffffff }, { 0, 0xe0000000, 0 } },	/* PPCNT */
	{ 0x5031, { 0xffffffff, 0xffffffff }, { 0, 0, 0 } },		/* PDDR */
	{ 0x5014, { 0x00ffff00, 0 }, { 0, 0, 0 } },			/* PRTL */
	{ 0x5023, { 0x00fffff2, 0 }, { 0x0f00000c, 0, 0 } },		/* PPLM */
	{ 0x504c, { 0x00ff0000, 0 }, { 0, 0, 0 } },			/* PPCR */
	{ 0x5012, { 0x0fff0000, 0 }, { 0x80000000, 0xc0000000, 0 } },	/* PMAOS */
	{ 0x900a, { 0xffffffff, 0 }, { 0, 0, 0xf0000000 } },		/* MTMP */
	{ 0x9009, { 0x000f0000, 0 }, { 0, 0, 0 } },			/* MTCAP */
	{ 0x900f, { 0xffffffff, 0xff }, { 0, 0, 0 } },			/* MTBR */
	{ 0x9001, { 0, 0 }, { 0, 0, 0 } },				/* MFCR */
	{ 0x9003, { 0xff000000, 0 }, { 0, 0, 0 } },			/* MFSM */
	{ 0x9007, { 0, 0 }, { 0, 0, 0 } },				/* FORE */
	{ 0x9020, { 0, 0 }, { 0, 0, 0 } },				/* MGIR */
	{ 0x9021, { 0, 0 }, { 0, 0, 0 } },				/* MSGI */
	{ 0x900c, { 0x000f00ff, 0 }, { 0, 0, 0 } },			/* MVCR */
};

/* 32 random bits of a register; the same for the same arguments. */
static u32 bits(u64 guid, u16 id, u32 select, u32 at)
{
	u64 x = guid * 0x9e3779b97f4a7c15ULL + ((u64)at << 48) + ((u64)id << 32) + select;

	x += faults.register_image * 0x2545f4914f6cdd1dULL;
	x ^= x >> 31;
	x *= 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 29;
	x *= 0x94d049bb133111ebULL;
	return x >> 32;
}

static void general_info(const struct mock_node *node, u8 *data)
{
	memset(data, 0, MAD_OCTETS - DATA);
	put_unaligned_be16(0xa0, data);
	put_unaligned_be16(node->type == TYPE_SWITCH ? 0xd2f0 : 0x101b, data + 2);
	put_unaligned_be32(3600, data + 28);
	data[33] = 27;
	data[34] = 12;
	data[35] = 34;
	memcpy(data + 48, "MT_0000000999", 13);
	put_unaligned_be32(27, data + 68);
	put_unaligned_be32(2012, data + 72);
	put_unaligned_be32(3008, data + 76);
	put_unaligned_be32(1 << 20, data + 128);	/* AccessRegisterGMP */
}

/* Writes a block of a register. Returns false if there is no such register. */
static bool access_register(const struct mock_node *node, u8 *mad)
{
	u32 id = get_unaligned_be32(mad + 20), block = get_unaligned_be16(mad + DATA), at, i;
	u32 first[3];

	for (i = 0; i < ARRAY_SIZE(selections) && selections[i].id != id; i++)
		;
	if (i == ARRAY_SIZE(selections))
		return false;
	for (at = 0; at < 3; at++) {
		first[at] = get_unaligned_be32(mad + BLOCK + 4 * at);
		if (first[at] & selections[i].acts[at])
			statistics.vendor_acts++;
	}
	for (at = 0; at < BLOCK_OCTETS; at += 4) {
		u32 place = block * BLOCK_OCTETS + at;
		u32 repeated = !block && at < 8 ? selections[i].mask[at / 4] : 0;
		/* Ports and pages of a register differ. */
		u32 select = (first[0] & selections[i].mask[0]) + 31 * (first[1] & selections[i].mask[1] & 0xff);
		u32 value = bits(node->guid, id, select, place);

		put_unaligned_be32((value & ~repeated) | (repeated ? first[at / 4] & repeated : 0), mad + BLOCK + at);
	}
	return true;
}

void vendor_answer(const struct mock_node *node, u8 *mad)
{
	u16 id = get_unaligned_be16(mad + 16);

	if (id == CLASS_PORT_INFO) {
		memset(mad + DATA, 0, MAD_OCTETS - DATA);
	} else if (id == GENERAL_INFO) {
		general_info(node, mad + DATA);
	} else if (id == REGISTER_GMP) {
		statistics.registers++;
		if (!access_register(node, mad))
			put_unaligned_be16(STATUS_NO_REGISTER, mad + 4);
	} else if (id == CONFIG_SPACE && get_unaligned_be32(mad + 20) == DEVICE_ID_AT) {
		put_unaligned_be32(node->type == TYPE_SWITCH ? QUANTUM : CONNECTX6, mad + DATA);
	} else {
		put_unaligned_be16(STATUS_UNSUPPORTED, mad + 4);
	}
}
