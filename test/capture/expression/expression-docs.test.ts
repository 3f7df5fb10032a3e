import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { ExpressionScope } from '../../../src/capture/call.ts';
import { parseExpression } from '../../../src/capture/expression/compile.ts';
import { SvcError } from '../../../src/ground/errors.ts';

const page = readFileSync(new URL('../../../docs/expressions.md', import.meta.url), 'utf8');

function blocks(language: string): string[] {
  return [...page.matchAll(new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 'gsu'))].map(
    (match) => match[1] as string,
  );
}

const data = JSON.parse(blocks('json')[0] as string) as { order: unknown; email: string; result: unknown };
const call: ExpressionScope = { args: [data.order, data.email], result: data.result, self: undefined };
const examples = blocks('text').flatMap((block) => block.trim().split('\n'));

describe('the examples of docs/expressions.md', () => {
  it('are found', () => {
    assert.ok(examples.length > 35, `${examples.length} examples`);
  });

  for (const example of examples) {
    const [text = '', outcome = ''] = example.split(' → ');
    it(example, () => {
      if (outcome === 'refused') {
        assert.throws(() => parseExpression(text), { code: 'SVC_CAPTURE_EXPRESSION_SYNTAX' });
        return;
      }
      const evaluate = parseExpression(text).bind(['order', 'email']);
      if (outcome === 'fails') {
        assert.throws(
          () => evaluate(call),
          (error) => error instanceof SvcError && error.code === 'SVC_CAPTURE_EXPRESSION',
        );
        return;
      }
      assert.deepEqual(evaluate(call), outcome === 'undefined' ? undefined : JSON.parse(outcome));
    });
  }
});
