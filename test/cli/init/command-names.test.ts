import assert from 'node:assert/strict';
import { WrongUse } from '../../../src/cli/terminal.ts';
import { writeFiles } from '../../e2e/support/run-app.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { svcHere } from '../support/svc-here.ts';

/** A file that has this function. */
function textWith(path: string): string {
  const [owner, ...names] = path.split('.');
  const name = names.at(-1);
  if (name === undefined) return `export function ${path}() {}`;
  if (names.includes('prototype')) return `export class ${owner} { ${name}() {} }`;
  return `export ${owner === 'default' ? owner : `const ${owner} =`} { ${name}() {} }`;
}

/** What `svc init` proposes for an application with this one function. */
async function proposed(path: string, file: string) {
  const cwd = temporaryFolder('commands');
  writeFiles(cwd, { 'package.json': '{ "type": "module" }', [file]: textWith(path) });
  const { stdout } = await svcHere(['init', '--yes', '--dry-run', '--json'], { cwd });
  const { targets } = JSON.parse(stdout);
  return targets.map((target: Record<string, string>) => [target.function, target.eventType]);
}

describe('which functions look like commands', () => {
  for (const [path, file, expected] of [
    ['createOrder', 'src/a.ts', 'ORDER_CREATED'],
    ['cancel_order_item', 'src/a.ts', 'ORDER_ITEM_CANCELLED'],
    ['OrderService.prototype.create', 'src/a.ts', 'ORDER_CREATED'],
    ['invoices.pay', 'src/a.ts', 'INVOICE_PAID'],
    ['deliveries.apply', 'src/a.ts', undefined],
    ['create', 'src/orders.ts', 'ORDER_CREATED'],
    ['submit', 'src/claims/index.js', 'CLAIM_SUBMITTED'],
    ['default.update', 'src/user-service.ts', 'USER_UPDATED'],
    ['createServer', 'src/a.ts', undefined],
    ['createOrderRepository', 'src/a.ts', undefined],
    ['addEventListener', 'src/a.ts', undefined],
    ['created', 'src/a.ts', undefined],
    ['getOrder', 'src/a.ts', undefined],
    ['address', 'src/a.ts', undefined],
  ] as const)
    it(`${path} of ${file}: ${expected ?? 'no command'}`, async () => {
      if (expected !== undefined) return assert.deepEqual(await proposed(path, file), [[path, expected]]);
      await assert.rejects(proposed(path, file), (error: Error) => {
        assert.ok(error instanceof WrongUse);
        assert.match(error.message, /^none of 1 functions looks like a command/);
        return true;
      });
    });
});
