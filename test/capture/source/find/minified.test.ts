import assert from 'node:assert/strict';
import { buildSync } from 'esbuild';
import { findAll } from '../../../../src/capture/source/rewrite-text.ts';

const text = `
import { readFileSync } from 'node:fs';
export class OrderService {
  constructor(private name: string) {}
  create(order: { id: number }) { return { id: order.id, by: this.name }; }
}
export function addToCart(cart: string[], item: string) { cart.push(item); return cart; }
const total = (prices: number[]) => prices.reduce((sum, price) => sum + price, 0);
console.log(new OrderService(readFileSync('x', 'utf8')).create({ id: total([1, 2]) }), addToCart([], 'x'));
`;

function problemOf(source: string, functionPath: string): string | undefined {
  let problem: string | undefined;
  findAll('bundle.js', source, { goal: 'unknown', typed: false }, [{ id: 'x', functionPath }], {
    found: () => true,
    problem: (_, reason) => {
      problem = reason;
    },
  });
  return problem;
}

function bundled(options: object): string {
  const { outputFiles } = buildSync({
    stdin: { contents: text, loader: 'ts' },
    bundle: true,
    platform: 'node',
    write: false,
    ...options,
  });
  return outputFiles[0]?.text ?? '';
}

describe('a minified bundle', () => {
  for (const format of ['cjs', 'esm'] as const) {
    it(`${format}: the report says that the names are gone, and what to do`, () => {
      for (const keepNames of [false, true]) {
        const bundle = bundled({ format, minify: true, keepNames });
        assert.match(
          `${problemOf(bundle, 'total')}`,
          /^no total in this file: it is minified, .*publishEvent/,
        );
      }
    });

    it(`${format}: with its names, a missing one is only missing`, () => {
      const bundle = bundled({ format, minifyWhitespace: true, minifySyntax: true });
      assert.equal(problemOf(bundle, 'total'), undefined);
      assert.equal(problemOf(bundle, 'nothingLikeIt'), 'no nothingLikeIt in this file');
    });
  }

  it('is no file with short names on lines of usual length', () => {
    const source = 'const a = 1;\nexport const b = (x) => x + a;\nexport function c() {}\n';
    assert.equal(problemOf(source, 'createOrder'), 'no createOrder in this file');
    assert.equal(problemOf('', 'createOrder'), 'no createOrder in this file');
  });
});
