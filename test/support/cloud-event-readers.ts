import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { CloudEvent, Kafka } from 'cloudevents';
import { cacheFolder, ensureFolder } from '../../scripts/services/cache.ts';
import { makePythonEnvironment, pythonIn } from '../../scripts/services/python.ts';

const pythonVersion = '2.2.0';

/** What an SDK needs of a record. */
export interface CloudRecord {
  readonly key: string | null;
  readonly headers: Readonly<Record<string, string | null>>;
  readonly value: Buffer;
}

export interface ReadCloudEvent {
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly data: unknown;
}

/** The official SDK for Python, installed once. */
export function ensurePythonCloudEvents(say: (line: string) => void): Promise<string> {
  const packages = {
    title: `cloudevents ${pythonVersion} of PyPI`,
    install: [`cloudevents==${pythonVersion}`],
  };
  return ensureFolder(cacheFolder(`cloudevents-python-${pythonVersion}`), (temporary) =>
    makePythonEnvironment(temporary, packages, say),
  );
}

/** Read and validated by the official SDK for JavaScript, without the `partitionkey` that it makes of the record key. */
export function readWithJavaScript({ key, headers, value }: CloudRecord): ReadCloudEvent {
  const message = { key: key ?? '', value: value.toString(), headers: headers as Record<string, string> };
  const event = Kafka.toEvent({ ...message, body: message.value });
  assert.ok(event instanceof CloudEvent);
  assert.ok(event.validate());
  return ofObject({ ...event });
}

/** Read by the official SDK for Python, which validates as it reads. */
export async function readWithPython(records: readonly CloudRecord[]): Promise<ReadCloudEvent[]> {
  const python = pythonIn(await ensurePythonCloudEvents((line) => console.error(line)));
  const input = records
    .map(({ value, ...record }) => `${JSON.stringify({ ...record, value: value.toString('base64') })}\n`)
    .join('');
  const program = join(import.meta.dirname, 'cloud_event.py');
  const { status, stdout, stderr } = spawnSync(python, [program], {
    input,
    timeout: 60_000,
    encoding: 'utf8',
  });
  assert.equal(status, 0, stderr);
  return stdout
    .trim()
    .split('\n')
    .map((line) => {
      const { attributes, data } = JSON.parse(line);
      return ofObject({ ...attributes, data });
    });
}

function ofObject({ data, ...given }: Record<string, unknown>): ReadCloudEvent {
  const attributes = Object.entries(given).filter(
    ([name, value]) => value !== undefined && name !== 'partitionkey',
  );
  return {
    attributes: Object.fromEntries(
      attributes.map(([name, value]) => [name, name === 'time' ? timeOf(value) : value]),
    ),
    data,
  };
}

const timeOf = (text: unknown): string => new Date(String(text)).toISOString();
