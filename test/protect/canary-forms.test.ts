import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { PiiField, publishEvent } from '../../src/index.ts';
import { runSvc } from '../support/run-svc.ts';
import { assertSilent, canaries, canarySecrets } from './canary.ts';
import { openCanaryCage } from './canary-cage.ts';

/** The second is short enough to stand in Base64 where the name of a field would. */
const values = [`${canaries.name} "T" <${canaries.email}>`, canaries.email];
const base64 = (text: string): string => Buffer.from(text).toString('base64');
const hex = (text: string): string => Buffer.from(text).toString('hex');

/** What an application makes of a marked value before svc sees it. */
const forms: Readonly<Record<string, (text: string) => string>> = {
  'among other text': (text) => `to ${text}, by post`,
  'as JSON': (text) => JSON.stringify({ text }),
  'as JSON in JSON': (text) => JSON.stringify({ json: JSON.stringify([text]) }),
  'as JSON of numbers': (text) =>
    JSON.stringify(text).replace(/./g, (each) => `\\u00${each.charCodeAt(0).toString(16)}`),
  'in a URL': (text) => `https://example.com/?q=${encodeURIComponent(text)}`,
  'as a form': (text) => String(new URLSearchParams({ text })),
  'in HTML': (text) =>
    `<b>${text.replaceAll('<', '&lt;').replaceAll('"', '&quot;').replaceAll('@', '&#64;').replaceAll('.', '&#46;')}</b>`,
  'in HTML of numbers': (text) => text.replace(/./g, (each) => `&#x${each.charCodeAt(0).toString(16)};`),
  'in Base64': base64,
  'in Base64 of a login': (text) => `Basic ${base64(`${text}:password`)}`,
  'in Base64 behind a character': (text) => base64(`x${text}`),
  'in Base64 for URLs': (text) => Buffer.from(`??${text}`).toString('base64url'),
  'in hexadecimal': hex,
  'in hexadecimal of upper case': (text) => `0x${hex(text).toUpperCase()}`,
};

/** Where it stands. */
const places: Readonly<Record<string, (form: string) => unknown>> = {
  'a field': (form) => ({ line: form }),
  'a field of another one': (form) => ({ deep: [{ line: form }] }),
  'a map': (form) => new Map([['line', new Set([form])]]),
  'all of it': (form) => form,
  'a key': (form) => ({ [form]: 1 }),
  'a Buffer': (form) => ({ line: Buffer.from(form) }),
  'an error': (form) => {
    throw new Error(form);
  },
};

class Composed {
  readonly text: string;
  readonly #compose: (text: string) => unknown;
  constructor(text: string, compose: (text: string) => unknown) {
    this.text = text;
    this.#compose = compose;
  }
  toJSON(): unknown {
    return this.#compose(this.text);
  }
}

/** Whatever the sink does with quotes, these characters stay as they are. */
function assertNothingOf(where: string, content: string, escaped: readonly string[]): void {
  assertSilent(where, content);
  for (const text of escaped)
    for (const run of text.match(/[A-Za-z0-9%+/.=&#;-]{12,}/g) ?? [])
      assert.equal(content.includes(run), false, `${where} shows ${run} of ${text}`);
}

describe('canary: what is marked, in the forms that an application gives it', () => {
  const { folder, log, spans, run, counts, assertNothingShown } = openCanaryCage();
  const crypto = { defaultKey: canarySecrets.key, salt: canarySecrets.salt };
  const escaped = Object.values(forms).flatMap((form) => values.map(form));

  for (const dlqFormat of ['operations', 'recovery'])
    it(`is in no dead letter (${dlqFormat}), backup, console, command, log line or span`, async () => {
      const path = join(folder, `topics-${dlqFormat}`);
      mkdirSync(join(path, 'canary.ndjson'), { recursive: true });
      const backup = join(folder, `backup-${dlqFormat}`);
      const service = run(
        { crypto, detect: 'report' },
        { client: 'file', file: { path }, dlqTopic: 'dead', dlqFormat, dlqBackupPath: backup },
      );
      PiiField({ type: 'CUSTOM' })(Composed.prototype, 'text');
      const thrown: unknown[] = [];
      const sent: Promise<unknown>[] = [];
      const { publish } = service.producer;
      for (const form of Object.values(forms))
        for (const value of values) {
          for (const place of Object.values(places)) {
            const composed = () => new Composed(value, (text) => place(form(text)));
            sent.push(publish(composed(), { eventType: 'DIRECT' }));
            sent.push(publish({ list: [composed()] }, { eventType: 'IN_A_LIST' }));
          }
          const [eventType, key] = ['BESIDE', form(value)];
          const silent = () => new Composed(value, () => ({}));
          sent.push(publish(silent(), { eventType, key }));
          sent.push(publish(silent(), { eventType, headers: { line: key } }));
          const call = publishEvent(
            { eventType: 'BY_CALL', key: () => key, failOnError: true },
            async () => new Composed(value, (text) => ({ line: form(text) })),
          );
          sent.push(call());
        }
      for (const each of await Promise.allSettled(sent))
        if (each.status === 'rejected') thrown.push(each.reason);
      await service.finish(5_000);
      const all = Object.keys(forms).length * values.length;
      const { dlq, refused } = await counts();
      assert.equal(dlq + refused, all * (2 * Object.keys(places).length + 3));
      assert.equal(thrown.length, refused);
      const dead = join(path, 'dead.ndjson');
      const content = readFileSync(dead, 'utf8');
      assert.match(content, /\*{4}/);
      assertNothingOf('dead letters', content, escaped);
      assert.equal(existsSync(backup), false);
      assertNothingOf('log', log.join('\n'), escaped);
      assertNothingOf(
        'thrown errors',
        thrown.map((error) => inspect(error, { depth: 9 })).join('\n'),
        escaped,
      );
      const ended = spans
        .getFinishedSpans()
        .map(({ name, attributes, events, status }) => [name, attributes, events, status]);
      assertNothingOf('spans', inspect(ended, { depth: 9, maxArrayLength: null }), escaped);
      const url = /http:\/\/127\.0\.0\.1:\d+/.exec(log.join('\n'))?.[0] ?? '';
      for (const page of [
        'svc',
        'svc/console.json',
        'svc/dlq',
        'svc/targets',
        'svc-metrics',
        'health',
        'info',
        'prometheus',
        'metrics',
      ]) {
        const answer = await fetch(`${url}/actuator/${page}`);
        assertNothingOf(page, await answer.text(), escaped);
      }
      const config = join(folder, `svc-${dlqFormat}.config.json`);
      writeFileSync(
        config,
        JSON.stringify({
          svc: { broker: { client: 'file', file: { path }, topic: 'canary', dlqTopic: 'dead' } },
        }),
      );
      const asJson = dlqFormat === 'recovery' ? ['--json'] : [];
      const now = new Date(Date.now() + 1).toISOString();
      for (const args of [
        ['tail', 'dead', '--since', '1h', '--until', now, ...asJson],
        ['dlq', 'list', ...asJson],
      ]) {
        const { code, stdout, stderr } = await runSvc([...args, '--config', config], { cwd: folder });
        assert.equal(code, 0, stderr);
        assert.match(stdout, /IN_A_LIST/);
        assertNothingOf(args.join(' '), stdout + stderr, escaped);
      }
      await assertNothingShown(thrown);
    }).timeout(120_000);
});
