import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findDeclared } from '../../../../src/capture/source/declared.ts';
import { temporaryFolder } from '../../../support/folders.ts';

describe('functions that are declared in code', () => {
  let folder: string;
  beforeEach(() => {
    folder = temporaryFolder('declared');
  });

  const list = (files: Record<string, string>) => {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), text);
    }
    return findDeclared(folder).functions.map(({ file, line, name, by }) => `${file}:${line} ${name} ${by}`);
  };

  it('are found in classes: methods, static methods, fields, under another name, in a namespace', () => {
    const text = `import { PublishEvent, PublishEvent as Tell } from 'svc';
import * as svc from "svc";
export class Orders {
  @PublishEvent({ eventType: 'X' })
  async create() {}
  @Other() @Tell() static of() {}
  @svc.PublishEvent() remove = () => {};
  @PublishEventually() late() {}
  plain() {}
}
export const Shop = class { @Tell() 'sell it'() {} };
`;
    assert.deepEqual(list({ 'src/orders.ts': text }), [
      'src/orders.ts:5 Orders.create @PublishEvent',
      'src/orders.ts:6 Orders.of @PublishEvent',
      'src/orders.ts:7 Orders.remove @PublishEvent',
      'src/orders.ts:11 Shop.sell it @PublishEvent',
    ]);
  });

  it('are found in calls, under the names that they have at run time', () => {
    const text = `const { publishEvent } = require('svc');
exports.a = publishEvent({ eventType: 'A' }, async () => {});
exports.b = publishEvent({ eventType: 'B' }, function named() {});
exports.c = publishEvent({}, exports.charge);
exports.d = publishEvent({}, () => {});
`;
    assert.deepEqual(list({ 'a.cjs': text }), [
      'a.cjs:2 A publishEvent()',
      'a.cjs:3 named publishEvent()',
      'a.cjs:4 charge publishEvent()',
      'a.cjs:5 anonymous publishEvent()',
    ]);
  });

  it('are not looked for in packages, builds, hidden folders, types, and files that have nothing of svc', () => {
    const text = "import { publishEvent } from 'svc';\npublishEvent({}, function f() {});\n";
    const elsewhere = text.replace("'svc'", "'./events.js'");
    const files = ['node_modules/x/a.js', 'dist/a.js', 'build/a.js', '.next/a.js', 'a.d.ts', 'a.txt'];
    const others = Object.fromEntries(files.map((file) => [file, text]));
    assert.deepEqual(list({ ...others, 'own.js': elsewhere, 'broken.js': `${text} ((`, 'a/b.mjs': text }), [
      'a/b.mjs:2 f publishEvent()',
    ]);
  });

  it('are none in a folder that is not there', () => {
    assert.deepEqual(findDeclared(join(folder, 'absent')), { functions: [], rules: [], events: [] });
  });

  it('with the rules for personal data that stand there as text, and those of marks on classes', () => {
    const text = `import { PiiField as Pii, publishEvent } from 'svc';
class Customer {
  @Pii({ strategy: 'ENCRYPT' }) email = '';
  @Pii({ strategy: 'ENCRYPT',
    keyId: 'eu' }) iban = '';
  @Pii() name = '';
  @Other({ strategy: 'ENCRYPT' }) plain = '';
}
publishEvent({ pii: [{ path: 'ssn', strategy: 'HASH' }] }, () => ({ strategy: 'EXCLUDE' }));
`;
    list({ 'customer.ts': text });
    assert.deepEqual(findDeclared(folder).rules, [
      { file: 'customer.ts', line: 3, strategy: 'ENCRYPT', keyId: undefined },
      { file: 'customer.ts', line: 4, strategy: 'ENCRYPT', keyId: 'eu' },
      { file: 'customer.ts', line: 9, strategy: 'HASH', keyId: undefined },
    ]);
  });
});
