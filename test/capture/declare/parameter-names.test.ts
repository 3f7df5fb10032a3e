import assert from 'node:assert/strict';
import { describe, it } from 'mocha';
import { parameterNames } from '../../../src/capture/declare/parameter-names.ts';
import { wrapFunction } from '../../../src/capture/wrap/wrap.ts';
import { recordingSlot } from '../recording-slot.ts';

describe('parameterNames', () => {
  const cases: [string, readonly string[] | undefined][] = [
    ['function create(order, options) {}', ['order', 'options']],
    ['async function create(order) {}', ['order']],
    ['function* rows(from, to) {}', ['from', 'to']],
    ['(order) => order', ['order']],
    ['order => order', ['order']],
    ['async order => order', ['order']],
    ['async (order, $x, _y) => order', ['order', '$x', '_y']],
    ['() => 1', []],
    ['(a = 1, b = "x,)y", c = [1, 2], d = { e: (f, g) => 1 }) => 1', ['a', 'b', 'c', 'd']],
    ['({ id, name }, [first], ...rest) => 1', ['', '', 'rest']],
    ['(a /* the, first */, // and )\n b) => 1', ['a', 'b']],
    ['(größe, naïve) => 1', ['größe', 'naïve']],
    ['(a,) => a', ['a']],
    ['function (a = `)$' + '{1}`) {}', ['a']],
    ['class Order { constructor(id) {} }', undefined],
    ['Math.max', undefined],
    ['(function (a) {}).bind(null)', undefined],
    ['({ create(order, by) {} }).create', ['order', 'by']],
    ['({ async create(order) {} }).create', ['order']],
    ['({ ["comp" + "uted"](order) {} }).computed', undefined],
  ];
  for (const [text, expected] of cases) {
    it(text.replaceAll('\n', ' '), () => {
      assert.deepEqual(parameterNames(new Function(`return (${text})`)()), expected);
    });
  }

  it('reads through a wrapper', () => {
    assert.deepEqual(parameterNames(wrapFunction((order: unknown) => order, recordingSlot())), ['order']);
  });
});
