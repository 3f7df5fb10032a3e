import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { CheckInput, CheckResult } from '../check-input.ts';
import type { Names } from '../names.ts';
import type { Problem } from '../problem.ts';

const url = 'svc.serde.schema-registry-url';
const files = ['token-file', 'ca-file'].map((part) => `svc.serde.schema-registry-${part}`);

/** What AVRO needs, and what JSON does not. */
export function checkSerde({ values, settings, baseDir }: CheckInput): CheckResult {
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const where = (name: string) => settings.get(name)?.where();
  if (values.get('svc.serde.type') !== 'AVRO') {
    // A variable that other programs know as well asks nothing of svc.
    const isShared = (name: string): boolean => /(?<!SVC_SERDE_)SCHEMA_REGISTRY_URL/.test(where(name) ?? '');
    const given = [...settings.keys()].find((name) => name.startsWith('svc.serde.schema') && !isShared(name));
    if (given !== undefined)
      warnings.push({
        name: given,
        message: 'has no effect while svc.serde.type is JSON',
        where: where(given),
        fix: 'Set svc.serde.type: AVRO',
      });
    return { problems, warnings };
  }
  if (values.get(url) === undefined)
    problems.push({
      name: url,
      message: 'is required when svc.serde.type is AVRO',
      where: where('svc.serde.type'),
      fix: `Set ${url}, such as http://localhost:8081`,
    });
  const client = values.get('svc.broker.client');
  if (client === 'file' || (client === undefined && !settings.has('svc.broker.bootstrap-servers')))
    problems.push({
      name: 'svc.serde.type',
      message: 'must be JSON where events go to files (svc.broker.client: file)',
      where: where('svc.serde.type'),
      fix: 'Send them to Kafka (svc.broker.bootstrap-servers), or set the environment variable SVC_SERDE_TYPE=JSON',
    });
  const ways = ['username', 'token', 'token-file'].filter((way) =>
    settings.has(`svc.serde.schema-registry-${way}`),
  );
  if (ways.length > 1)
    problems.push({
      name: `svc.serde.schema-registry-${ways[1]}`,
      message: `is a second way to sign in beside schema-registry-${ways[0]}`,
      where: where(`svc.serde.schema-registry-${ways[1]}`),
      fix: 'Keep one of them',
    });
  for (const name of files) {
    const file = values.get(name);
    if (typeof file !== 'string') continue;
    const why = unreadable(resolve(baseDir, file));
    if (why !== undefined)
      problems.push({ name, message: why, where: where(name), fix: 'Correct the path or its rights' });
  }
  const schemas = (values.get('svc.serde.schemas') ?? {}) as Names;
  for (const [eventType, [file = '', ...more]] of Object.entries(schemas)) {
    const name = 'svc.serde.schemas';
    const why = more.length > 0 ? 'names more than one file' : noSchema(resolve(baseDir, file));
    if (why === undefined) continue;
    const message = `of event type ${eventType} ${why}`;
    problems.push({ name, message, where: where(name), fix: 'Name one file with an Avro schema (.avsc)' });
  }
  return { problems, warnings };
}

function unreadable(path: string): string | undefined {
  try {
    readFileSync(path);
    return undefined;
  } catch (error) {
    return `names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`;
  }
}

/** Whether its types are right, the library says that reads it. */
function noSchema(path: string): string | undefined {
  const why = unreadable(path);
  if (why !== undefined) return why;
  try {
    const schema: unknown = JSON.parse(readFileSync(path, 'utf8'));
    return typeof schema === 'object' && schema !== null
      ? undefined
      : 'names a file without a schema of Avro';
  } catch {
    return 'names a file that is no JSON';
  }
}
