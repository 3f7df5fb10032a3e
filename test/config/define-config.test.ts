import assert from 'node:assert/strict';
import { defineConfig, type SvcConfig } from '../../src/config/define-config.ts';
import { loadConfig } from '../../src/config/read/load.ts';
import { camelCase, type Option, options } from '../../src/config/schema/schema.ts';
import { targetFields } from '../../src/config/schema/target.ts';
import { folderWith, lines, removeFolders } from './config-folder.ts';

describe('defineConfig', () => {
  after(removeFolders);

  const config = defineConfig({
    svc: {
      required: true,
      broker: { topic: 'orders', 'max-in-flight': 5, client: 'file', backup: { s3Prefix: 'a' } },
      idGenerator: { workerId: 7 },
      context: { actor: { userId: (request) => request } },
      pii: { fields: ['customer.email', { path: 'a', type: 'EMAIL' }], crypto: { 'require-salt': true } },
      targets: [
        {
          module: './a.ts',
          function: 'a',
          severity: 'WARN',
          payload: ({ result }) => result,
          pii: { type: 'EMAIL' },
        },
      ],
    },
    management: { server: { port: 0 }, endpoint: { health: { 'show-details': 'never' } } },
    'svc.log.level': 'warn',
  });

  it('gives a configuration that svc takes, names in either spelling', () => {
    const loaded = loadConfig({ cwd: folderWith(), env: {}, code: config });
    assert.deepEqual([lines(loaded.problems), loaded.targetProblems], [[], []]);
    assert.deepEqual([loaded.config.broker.maxInFlight, loaded.config.required], [5, true]);
  });

  it('lets the compiler find mistakes', () => {
    // Each expectation fails the compiler where it finds nothing.
    const wrong: SvcConfig[] = [
      // @ts-expect-error the name is misspelled
      { svc: { brokr: {} } },
      // @ts-expect-error the type is wrong
      { svc: { broker: { maxInFlight: '5' } } },
      // @ts-expect-error not one of the values
      { svc: { log: { level: 'loud' } } },
      // @ts-expect-error a field of a target is missing
      { svc: { targets: [{ module: 'a' }] } },
      // @ts-expect-error an unknown field of a target
      { svc: { targets: [{ module: 'a', function: 'b', eventtype: 'C' }] } },
    ];
    assert.equal(wrong.length, 5);
  });

  it('knows every option and every field of a target', () => {
    const full = loadConfig({ cwd: folderWith(), env: {}, code: {} }).config as unknown as Record<
      string,
      unknown
    >;
    const isKnown = ({ name }: Option): boolean => {
      const parts = name
        .replace(/^svc\./, '')
        .split('.')
        .map(camelCase);
      let section: unknown = full;
      for (const part of parts.slice(0, -1))
        section = (section as Record<string, unknown> | undefined)?.[part];
      return typeof section === 'object' && section !== null && (parts.at(-1) ?? '') in section;
    };
    assert.deepEqual(
      options.filter((option) => !isKnown(option)).map(({ name }) => name),
      [],
    );
    type Field = keyof NonNullable<NonNullable<SvcConfig['svc']>['targets']>[number];
    const fields: Record<Field, true> = {
      module: true,
      function: true,
      eventType: true,
      severity: true,
      topic: true,
      payload: true,
      payloadIndex: true,
      key: true,
      phase: true,
      failOnError: true,
      outbox: true,
      afterCommit: true,
      when: true,
      callback: true,
      headers: true,
      params: true,
      pii: true,
    };
    const known = targetFields.map(({ name }) => name);
    assert.deepEqual(Object.keys(fields).sort(), known.sort());
  });
});
