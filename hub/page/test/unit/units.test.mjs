import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "../load.mjs";

const units = await load("src/model/units.ts");
const plain = (text) => text.replaceAll(/[\u2009\u202f\u00a0]/g, " ");

test("shares_have_one_decimal_and_other_numbers_three_significant_digits", () => {
  const cases = [
    [units.percent(0.98765), "98.8 %"],
    [units.percent(0.0512), "5.1 %"],
    [units.percent(1), "100.0 %"],
    [units.percent(0.9999), "> 99.9 %"],
    [units.percent(0.00001), "< 0.1 %"],
    [units.percent(0), "0.0 %"],
    [units.scaled(3.88e12, "b/s"), "3.88 Tb/s"],
    [units.scaled(999.7, "B"), "1.00 kB"],
    [units.duration(0.0000412), "41.2 µs"],
    [units.duration(0.9999), "1.00 s"],
    [units.duration(0.0009996), "1.00 ms"],
    [units.duration(771), "12 min 51 s"],
    [units.duration(86400), "1 d"],
    [units.grouped("9007199254740993123"), "9 007 199 254 740 993 123"],
  ];
  for (const [found, expected] of cases) assert.equal(plain(found), expected);
});

test("numbers_of_an_axis_have_the_same_digits", () => {
  const cases = [
    [
      ["0 %", "50.0 %", "100 %"],
      ["0 %", "50 %", "100 %"],
    ],
    [
      ["0 %", "2.50 %", "≥ 5.00 %"],
      ["0 %", "2.5 %", "≥ 5.0 %"],
    ],
    [
      ["0 b/s", "37.5 Gb/s", "75.0 Gb/s"],
      ["0 b/s", "37.5 Gb/s", "75.0 Gb/s"],
    ],
    [["100 %"], ["100 %"]],
    [["–"], ["–"]],
  ];
  for (const [texts, expected] of cases) assert.deepEqual(units.withSameDigits(texts), expected);
});

test("values_beside_each_other_have_the_prefix_and_the_digits_of_the_largest", () => {
  const texts = [2.4e10, 1.23e9, 5e6, 0].map((value) => plain(units.scaled(value, "B", 2.4e10)));
  assert.deepEqual(texts, ["24.0 GB", "1.2 GB", "0.0 GB", "0.0 GB"]);
});

test("missing_value_is_never_zero", () => {
  for (const text of [
    units.percent(null),
    units.scaled(undefined, "B"),
    units.duration(Number.NaN),
  ]) {
    assert.equal(text, "–");
  }
});

const ratios = await load("src/model/ratio.ts");

test("missing_ratio_differs_from_one_without_errors", () => {
  const cases = [
    [null, "–"],
    [1.44e-9, "1.4e−9"],
    [0, "none"],
    [1.5e-254, "none"],
  ];
  for (const [ratio, text] of cases) assert.equal(ratios.ratioText(ratio), text);
});

test("time_of_a_picture_has_its_date_apart_unless_it_has_two", () => {
  const at = new Date(2026, 10, 28, 17, 16, 5).getTime();
  const cases = [
    [[at], ["2026-11-28", "17:16:05"]],
    [
      [at - 65_000, at],
      ["2026-11-28", "17:15:00 – 17:16:05"],
    ],
    [
      [at - 86_400_000, at],
      ["", "11-27 17:16 – 11-28 17:16"],
    ],
  ];
  for (const [ends, texts] of cases) assert.deepEqual(units.timeTexts(...ends), texts);
});

const { timeTicks } = await load("src/draw/ticks.ts");

test("time_axis_has_two_labels_also_where_it_is_narrow", () => {
  const at = (minute, second) => new Date(2026, 10, 28, 18, minute, second).getTime();
  const labels = (from, to, most) => timeTicks(from, to, most).map(({ label }) => label);
  // Steps of 5 minutes would leave only 18:15.
  assert.deepEqual(labels(at(13, 10), at(18, 20), 2), ["18:14", "18:16", "18:18"]);
  assert.deepEqual(labels(at(14, 0), at(18, 0), 4), ["18:14", "18:15", "18:16", "18:17", "18:18"]);
});
