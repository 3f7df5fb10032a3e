import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { errorCatalogue } from '../../src/ground/errors.ts';
import { alerts } from '../ops/support/rule-files.ts';
import { runSvc } from '../support/run-svc.ts';

const root = resolve(import.meta.dirname, '../..');
const runbook = readFileSync(join(root, 'docs/runbook.md'), 'utf8');
const [, alertPart = '', codePart = ''] = runbook.split(/^## (?:Alerts|Error codes)$/m);
const entries = (part: string): string[] =>
  [...part.matchAll(/^### (\S+)$/gm)].map(([, name]) => name as string);

/**
 * Codes that wake nobody, by the rule of the runbook: they come at the start, at a release, with a change of the configuration,
 * or to whoever calls a function or a command.
 */
const quiet = new Set<string>(
  `ADAPTERS_BACKUP_BUSY ADAPTERS_BATCH_TOO_LARGE ADAPTERS_MARKS_FULL ADAPTERS_OPTIONS ADAPTERS_PACKAGE_MISSING ADAPTERS_TLS_FILE CAPTURE_EXPRESSION_ASYNC
  CAPTURE_EXPRESSION_NAME CAPTURE_EXPRESSION_SYNTAX CAPTURE_HEADERS CAPTURE_PAYLOAD_INDEX CAPTURE_RESULT_UNKNOWN CAPTURE_RULE
  CONSUME_HANDLER_HANGS CONSUME_NOT_AN_EVENT CONSUME_OPTIONS CONSUME_TABLE_MISSING CONSUME_UNKNOWN_TYPE CONSUME_UNREADABLE CONSUME_UPCAST
  CONSUMER_FIELD_NOT_NAMED CONSUMER_KEYS_FILE CONSUMER_NOT_AN_ENVELOPE CONSUMER_OPTIONS CONTEXT_BAD_ACTOR_SOURCE CONTEXT_BAD_HEADER_NAME
  CONTEXT_BAD_TRUSTED_PROXY CONTEXT_VALUES ENVELOPE_WORKER_ID GROUND_BUCKET_CLIENT GROUND_PROCESS_FILE MANAGE_LISTEN_FAILED MANAGE_TOKEN_REQUIRED OBSERVE_LOGGER
  OUTBOX_AGGREGATE_ID OUTBOX_COMMITTED OUTBOX_NO_TRANSACTION OUTBOX_SEVERAL_TRANSACTIONS OUTBOX_DATA_SOURCE OUTBOX_DRIVER
  OUTBOX_EVENT OUTBOX_EXECUTOR OUTBOX_TOO_LONG OUTBOX_NOT_RUNNING OUTBOX_PACKAGE_MISSING OUTBOX_REPLAY_BUSY
  OUTBOX_REPLAY_OPTIONS OUTBOX_ROLLED_BACK OUTBOX_STRAY_ROWS OUTBOX_URL PIPELINE_NO_OUTBOX PRELOAD_INSTRUMENTATION PRELOAD_SDK
  PROTECT_CIPHERTEXT PROTECT_DECRYPT_FAILED PROTECT_KEY_ID PROTECT_KEY_LENGTH PROTECT_KEY_LIST PROTECT_KEY_PROVIDER
  PROTECT_KEY_UNKNOWN PROTECT_NO_KEY PROTECT_NO_SALT PROTECT_RULE SERIALIZE_NOT_AVRO SERIALIZE_SCHEMA PUBLISH_BACKUP_STRATEGY
  PUBLISH_BROKER PUBLISH_HEADERS PUBLISH_NOT_RUNNING PUBLISH_OPTIONS TESTING_MATCH`
    .split(/\s+/)
    .map((code) => `SVC_${code}`),
);

describe('docs/runbook.md', function () {
  this.timeout(60_000);

  it('has an entry for each alert, in the order of the rules, and for no other', () => {
    assert.deepEqual(
      entries(alertPart),
      alerts.map(({ alert }) => alert),
    );
  });

  it('says in each entry of an alert what it means, what waiting costs and what to do', () => {
    for (const entry of alertPart.split(/^### /m).slice(1)) {
      for (const word of ['**Means.**', '**Waiting costs**', '**Do'])
        assert.ok(entry.includes(word), `${word} in ${entry.slice(0, 40)}`);
    }
  });

  it('tells of each error code of the catalogue, unless it is known that it wakes nobody', () => {
    const told = new Set(codePart.match(/SVC_[A-Z_]+[A-Z]/g));
    const decided = [...told, ...quiet].sort();
    assert.deepEqual(decided, Object.keys(errorCatalogue).sort());
  });

  it('links to what is there', () => {
    const headings = [...runbook.matchAll(/^#+ (.+)$/gm)].map(([, text]) =>
      (text as string).toLowerCase().replaceAll(' ', '-'),
    );
    for (const [, page, anchor] of runbook.matchAll(/\]\(([\w.-]*)(?:#([\w-]+))?\)/g)) {
      if (page !== '') readFileSync(join(root, 'docs', page as string));
      else assert.ok(headings.includes(anchor as string), `#${anchor}`);
    }
  });

  it('names only commands that there are, with options that they take', async () => {
    const lines = [...runbook.matchAll(/npx --no svc ([^`#\n]+)/g)].map(([, line]) =>
      (line as string).trim(),
    );
    const commands = new Set(lines.filter((line) => line !== '…'));
    assert.ok(commands.size > 10);
    const linesOf = Map.groupBy(commands, (line) => line.split(' --')[0]?.trim() ?? '');
    for (const [named, some] of linesOf) {
      const { code, stdout } = await runSvc([...named.split(/\s+/), '--help']);
      assert.equal(code, 0, named);
      assert.ok(stdout.includes(`svc ${named}`), `${named}\n${stdout}`);
      for (const [option] of some.join(' ').matchAll(/(?<= )--[a-z]\S*/g))
        assert.ok(stdout.includes(option), `${option} of ${named}`);
    }
  });

  it('names only endpoints that there are', () => {
    const routes = readFileSync(join(root, 'src/manage/routes.ts'), 'utf8');
    for (const [, path] of runbook.matchAll(/localhost:17820(\/[\w/-]+)/g))
      assert.ok(routes.includes(`'${path}'`), path);
  });

  it('names only settings that there are', () => {
    const settings = readFileSync(join(root, 'docs/configuration.md'), 'utf8');
    for (const [, setting] of runbook.matchAll(/`(svc\.[\w.-]+)(?:: [^`]+)?`/g))
      assert.ok(settings.includes(setting as string), setting);
  });
});
