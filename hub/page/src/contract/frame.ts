//! Decodes the binary messages of the hub: *frames* with the values of one slot, and *matrices*
//! with those of many slots.
//!
//! All numbers are little endian. A value has 16 bits: 0 to 64000 is a share of the scale of the
//! metric, and the codes above it are states without a value.

/** Code of a value at the end of the scale. */
export const FULL = 64000;
/** The hub has no value for this slot. */
export const NO_DATA = 65535;
/** The device did not answer. */
export const NO_ANSWER = 65534;
/** The link is down. */
export const LINK_DOWN = 65533;
/** The port has no sampler. */
export const NOT_ASSIGNED = 65532;
/** Errors increased at an unknown time. Only matrices have this code. */
export const INCREASE = 65531;

/** The port answers, but its device does not have the counter. */
export const NO_COUNTER = 65530;

const FRAME_MAGIC = 0x31424249;
const HEAT_MAGIC = 0x31484249;
const FRAME_HEADER = 32;
const HEAT_HEADER = 32;

/** The values of all ports in one slot. */
export interface Frame {
  generation: number;
  slot: number;
  /** Time of the newest record, milliseconds since 1970. */
  time: number;
  /** A sampler has not ended the slot. The frame comes again when it has. */
  partial: boolean;
  /** One array for each metric of the subscription, indexed by port. */
  values: Uint16Array[];
}

/** The values of all ports in a time range. */
export interface Heat {
  generation: number;
  /** Start of the first column, milliseconds since 1970. */
  from: number;
  /** Length of a column in milliseconds. */
  step: number;
  rows: number;
  /** One array for each column. */
  columns: Cells[];
}

/**
 * Either plain codes, or cells: a code in the low 16 bits, and above them the share of the ports
 * without a value, in parts of 65535. A share above 0 means that the value is not exact.
 */
export type Cells = Uint16Array | Uint32Array;

const CODES = 0x10000;

/**
 * Returns the cell for a code that summarizes several ports. `known` is the share of them that have
 * a value.
 */
export function cellOf(code: number, known: number): number {
  return code + CODES * Math.max(known < 1 ? 1 : 0, Math.round((CODES - 1) * (1 - known)));
}

/** Returns the code of a cell. */
export function codeIn(cell: number): number {
  return cell % CODES;
}

/** Returns the share of the ports of a cell that have a value. */
export function knownShare(cell: number): number {
  return 1 - Math.floor(cell / CODES) / (CODES - 1);
}

/** Returns the codes of cells. */
export function codesIn(cells: Cells): Uint16Array {
  return cells instanceof Uint16Array ? cells : Uint16Array.from(cells);
}

/** Returns whether a code is a value. */
export function hasValue(code: number): boolean {
  return code <= FULL;
}

/** Returns the share of a code, 0 to 1, or null if it is a state without a value. */
export function shareOf(code: number): number | null {
  return code <= FULL ? code / FULL : null;
}

/** Returns the code of a share, 0 to 1. Null gives the code of no data. */
export function codeOf(share: number | null): number {
  return share === null ? NO_DATA : Math.round(FULL * Math.max(0, Math.min(1, share)));
}

/**
 * Combines two states into the one with the smaller code. Ports without the counter do not count in
 * a row, so any other state replaces theirs.
 */
export function worse(state: number, other: number): number {
  if (state === NO_COUNTER) return other === NO_DATA ? state : other;
  if (other === NO_COUNTER) return state === NO_DATA ? other : state;
  return Math.min(state, other);
}

/** Returns the meaning of a code without a value. */
export function stateOf(code: number): string {
  switch (code) {
    case NO_ANSWER:
      return "no answer";
    case LINK_DOWN:
      return "link down";
    case NOT_ASSIGNED:
      return "no sampler";
    case INCREASE:
      return "errors increased at an unknown time";
    case NO_COUNTER:
      return "no counter";
    default:
      return "no data";
  }
}

/** Decodes a frame. Throws an `Error` if the message is not a frame. */
export function decodeFrame(message: ArrayBuffer): Frame {
  const view = header(message, FRAME_HEADER, FRAME_MAGIC, "frame");
  const ports = view.getUint32(24, true);
  const metrics = view.getUint16(28, true);
  expectLength(message, FRAME_HEADER + 2 * ports * metrics, "frame");
  return {
    generation: view.getUint32(4, true),
    slot: Number(view.getBigUint64(8, true)),
    time: Number(view.getBigUint64(16, true)) / 1e6,
    partial: (view.getUint16(30, true) & 1) !== 0,
    values: arrays(message, FRAME_HEADER, ports, metrics),
  };
}

/** Decodes a matrix. Throws an `Error` if the message is not a matrix. */
export function decodeHeat(message: ArrayBuffer): Heat {
  const view = header(message, HEAT_HEADER, HEAT_MAGIC, "matrix");
  const rows = view.getUint32(24, true);
  const count = view.getUint32(28, true);
  const end = HEAT_HEADER + 2 * rows * count;
  // Indices of the lower bounds, in ascending order. They may start at an offset that is not a
  // multiple of 4.
  const bounds = Math.floor((message.byteLength - end) / 4);
  expectLength(message, end + 4 * Math.min(Math.max(bounds, 0), rows * count), "matrix");
  const columns: Cells[] = arrays(message, HEAT_HEADER, rows, count);
  let last = -1;
  for (const place of new Uint32Array(message.slice(end))) {
    if (place <= last || place >= rows * count) {
      throw new Error(`cannot read a matrix: the place of a lower bound is wrong (found ${place})`);
    }
    last = place;
    const index = Math.floor(place / rows);
    let column = columns[index];
    if (column instanceof Uint16Array) {
      column = Uint32Array.from(column);
      columns[index] = column;
    }
    column[place % rows] = cellOf(column[place % rows], 0);
  }
  return {
    generation: view.getUint32(4, true),
    from: Number(view.getBigUint64(8, true)) / 1e6,
    step: Number(view.getBigUint64(16, true)) / 1e6,
    rows,
    columns,
  };
}

function header(message: ArrayBuffer, length: number, magic: number, what: string): DataView {
  const view = new DataView(message);
  if (message.byteLength < length || view.getUint32(0, true) !== magic) {
    throw new Error(`cannot read a ${what}: the message has another format`);
  }
  return view;
}

function expectLength(message: ArrayBuffer, expected: number, what: string): void {
  if (message.byteLength !== expected) {
    throw new Error(
      `cannot read a ${what}: the length is wrong (found ${message.byteLength}, expected ${expected})`,
    );
  }
}

/**
 * Typed arrays use the byte order of the machine, and all current browsers run on little endian.
 */
function arrays(
  message: ArrayBuffer,
  offset: number,
  length: number,
  count: number,
): Uint16Array[] {
  return Array.from(
    { length: count },
    (_, index) => new Uint16Array(message, offset + 2 * length * index, length),
  );
}
