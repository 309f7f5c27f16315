import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "../load.mjs";

const frames = await load("src/contract/frame.ts");

function message(magic, ports, arrays, flags = 0) {
  const buffer = new ArrayBuffer(32 + 2 * ports * arrays.length);
  const view = new DataView(buffer);
  view.setUint32(0, magic, true);
  view.setUint32(4, 7, true);
  view.setBigUint64(8, 1_800_000_000n, true);
  view.setBigUint64(16, 1_800_000_001_000_000_000n, true);
  view.setUint32(24, ports, true);
  view.setUint16(28, arrays.length, true);
  view.setUint16(30, flags, true);
  arrays.forEach((array, index) => {
    new Uint16Array(buffer, 32 + 2 * ports * index, ports).set(array);
  });
  return buffer;
}

test("frame_has_the_values_of_each_metric", () => {
  const frame = frames.decodeFrame(
    message(
      0x31424249,
      2,
      [
        [0, 64000],
        [65535, 65534],
      ],
      1,
    ),
  );
  assert.equal(frame.generation, 7);
  assert.equal(frame.slot, 1_800_000_000);
  assert.equal(frame.partial, true);
  assert.deepEqual([...frame.values[0]].map(frames.shareOf), [0, 1]);
  assert.deepEqual([...frame.values[1]].map(frames.shareOf), [null, null]);
  assert.deepEqual([...frame.values[1]].map(frames.stateOf), ["no data", "no answer"]);
});

test("damaged_message_is_refused", () => {
  const good = message(0x31424249, 2, [[1, 2]]);
  for (const bad of [good.slice(0, 8), good.slice(0, -2), message(1, 2, [[1, 2]])]) {
    assert.throws(() => frames.decodeFrame(bad), /cannot read a frame/);
  }
});

test("column_with_many_lower_bounds_is_converted_once", (context) => {
  const plain = message(0x31484249, 4, [[1, 2, 3, 4]]);
  new DataView(plain).setUint32(28, 1, true);
  const marked = new Uint8Array(plain.byteLength + 16);
  marked.set(new Uint8Array(plain));
  [0, 1, 2, 3].forEach((place) => {
    new DataView(marked.buffer).setUint32(plain.byteLength + 4 * place, place, true);
  });
  const convert = context.mock.method(Uint32Array, "from");
  const [column] = frames.decodeHeat(marked.buffer).columns;
  assert.equal(convert.mock.callCount(), 1);
  assert.deepEqual([...column].map(frames.codeIn), [1, 2, 3, 4]);
  assert.deepEqual([...column].map(frames.knownShare), [0, 0, 0, 0]);
});

test("matrix_marks_lower_bounds", () => {
  const cells = [
    [1, 2],
    [3, 65531],
  ];
  const plain = message(0x31484249, 2, cells);
  new DataView(plain).setUint32(28, 2, true);
  assert.deepEqual(
    frames.decodeHeat(plain).columns.map((column) => [...column]),
    cells,
  );
  const marked = new Uint8Array(plain.byteLength + 4);
  marked.set(new Uint8Array(plain));
  new DataView(marked.buffer).setUint32(plain.byteLength, 2, true);
  const [first, second] = frames.decodeHeat(marked.buffer).columns;
  assert.deepEqual([...first], cells[0]);
  assert.deepEqual([...second].map(frames.codeIn), cells[1]);
  assert.deepEqual([...second].map(frames.knownShare), [0, 1]);
  assert.equal(frames.stateOf(frames.codeIn(second[1])), "errors increased at an unknown time");
  assert.throws(() => frames.decodeHeat(marked.buffer.slice(0, -1)), /cannot read a matrix/);
  // Octets that follow must be places within the matrix, in ascending order.
  const followed = (places) => {
    const text = new Uint8Array(plain.byteLength + 4 * places.length);
    text.set(new Uint8Array(plain));
    places.forEach((place, index) => {
      new DataView(text.buffer).setUint32(plain.byteLength + 4 * index, place, true);
    });
    return text.buffer;
  };
  for (const places of [[4], [2, 2], [3, 1], [0, 0, 0], [0, 1, 2, 3, 0], [0, 1, 2, 3, 4]]) {
    assert.throws(() => frames.decodeHeat(followed(places)), /cannot read a matrix/);
  }
  assert.equal(frames.decodeHeat(followed([0, 1, 2, 3])).columns.length, 2);
});
