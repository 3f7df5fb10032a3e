import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { installPacked } from '../../support/packed.ts';
import { freshFolder, type PublishedEvent, runApp, writeFiles } from '../support/run-app.ts';
import { subject } from '../support/subject.ts';

const { node } = await subject();

const dependencies = {
  '@prisma/client': '7.10.0',
  'class-transformer': '0.5.1',
  dayjs: '1.11.23',
  'decimal.js': '10.6.0',
  immer: '11.2.10',
  long: '5.3.2',
  luxon: '3.7.2',
  mobx: '7.1.3',
  moment: '2.31.0',
  mongoose: '9.12.1',
  protobufjs: '8.8.1',
  'reflect-metadata': '0.2.2',
};

interface Case {
  readonly id: string;
  readonly name: string;
  /** What `JSON.stringify` makes of it, with the forms of docs/api.md where JSON has none. */
  readonly json: unknown;
}

interface Ended {
  readonly cases: readonly (Case & { readonly secrets: readonly string[] })[];
  readonly owns: readonly Case[];
  readonly stderr: string;
  find(eventType: string, one: Case): PublishedEvent | undefined;
}

async function run(detect: string): Promise<Ended> {
  const cwd = freshFolder(installPacked('json-libraries', dependencies), `json-${detect}`);
  writeFiles(cwd, {
    'main.mjs': readFileSync(join(import.meta.dirname, 'json-libraries.mjs'), 'utf8'),
    'svc.config.json': JSON.stringify({
      svc: { broker: { topic: 'values' }, pii: { detect, crypto: { salt: 'a salt of one test' } } },
    }),
  });
  const { code, stderr, events } = await runApp({
    node,
    cwd,
    args: ['--import', 'svc/register', 'main.mjs'],
  });
  assert.equal(code, 0, stderr);
  const byId = new Map(events.map((event) => [`${event.value.eventType} ${event.key}`, event]));
  const { cases, owns } = JSON.parse(readFileSync(join(cwd, 'cases.json'), 'utf8')) as Ended;
  return { cases, owns, stderr, find: (type, { id }) => byId.get(`${type} ${id}`) };
}

/** Every value in it is hashed. */
const hidden = (json: unknown): unknown => mapped(json, (value) => (value === null ? null : 'HASH'));

/** What stands below a key `secret` is. */
function ruled(json: unknown): unknown {
  if (typeof json !== 'object' || json === null) return json;
  if (Array.isArray(json)) return json.map(ruled);
  const entries = Object.entries(json).map(([key, value]) => [
    key,
    key === 'secret' ? hidden(value) : ruled(value),
  ]);
  return Object.fromEntries(entries);
}

const shown = (payload: unknown): unknown =>
  mapped(payload, (value) => (typeof value === 'string' ? value.replace(/^HASH\(.*\)$/, 'HASH') : value));

function mapped(json: unknown, map: (value: unknown) => unknown): unknown {
  if (typeof json !== 'object' || json === null) return map(json);
  if (Array.isArray(json)) return json.map((each) => mapped(each, map));
  return Object.fromEntries(Object.entries(json).map(([key, value]) => [key, mapped(value, map)]));
}

/** A payload that is no object is published as the value of one. */
function rooted(json: unknown): unknown {
  return typeof json === 'object' && json !== null && !Array.isArray(json) ? json : { value: json };
}

for (const detect of ['off', 'report']) {
  describe(`values of libraries, detection ${detect}`, function suite() {
    this.timeout(300_000);
    let ended: Ended;
    before(async () => {
      ended = await run(detect);
    });

    /** Texts, so that the order of keys counts. */
    const compare = (type: string, one: Case, expected: unknown): string[] => {
      const event = ended.find(type, one);
      const [sent, wanted] = [JSON.stringify(shown(event?.value.payload)), JSON.stringify(expected)];
      return sent === wanted ? [] : [`${type} ${one.name}: ${sent}, not ${wanted}`];
    };

    it('are what JSON.stringify makes of them', () => {
      const wrong = ended.cases.flatMap((one) => [
        ...compare('PLAIN', one, rooted(one.json)),
        ...compare('NESTED', one, { value: one.json, list: [one.json] }),
      ]);
      assert.deepEqual(wrong, []);
      assert.ok(ended.cases.length >= 60, `${ended.cases.length} cases`);
      assert.doesNotMatch(ended.stderr, /refused/);
    });

    it('keep their form where a rule or a mark protects them, whole or in part', () => {
      const wrong = ended.cases.flatMap((one) => [
        ...compare('RULED', one, ruled({ value: one.json, secret: one.json })),
        ...compare('OWNED', one, { held: hidden(one.json) }),
      ]);
      assert.deepEqual(wrong, []);
    });

    it('show nothing in what the toJSON of an owner makes of them', () => {
      const shows = ended.cases.flatMap((one) => {
        const event = ended.find('COMPOSED', one);
        const text = JSON.stringify(event ?? 'was not published');
        return ['was not published', ...one.secrets]
          .filter((secret) => text.includes(secret))
          .map((secret) => `${one.name}: ${secret} in ${text}`);
      });
      assert.deepEqual(shows, []);
    });

    it('are protected by the marks of their own class', () => {
      const wrong = ended.owns.flatMap((one) =>
        compare('OWN', one, ruled({ value: one.json, list: [one.json] })),
      );
      assert.deepEqual(wrong, []);
    });

    it('are in no line of the log', () => {
      assert.doesNotMatch(ended.stderr, /canary@example|541592430|1234567\.891/);
    });
  });
}
