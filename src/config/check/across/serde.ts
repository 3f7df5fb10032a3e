import { resolve } from 'node:path';
import { isLoopback } from '../../../ground/addresses.ts';
import { attributePrefix, isAttributeHeader, isAttributeText } from '../../../ground/event-fields.ts';
import { readBoundedSync } from '../../../ground/files/folders.ts';
import { targetsName } from '../../schema/schema.ts';
import type { TargetConfig } from '../../schema/target.ts';
import type { Names } from '../names.ts';
import { type Findings, unreadable } from './findings.ts';

const type = 'svc.serde.type';
const ofSchemas = 'svc.serde.schemas';
const ofRegistry = (part: string): string => `svc.serde.schema-registry-${part}`;

/** What a CloudEvent cannot hold. */
function checkCloudEvents({ values, isGiven, add, warn }: Findings, targets: readonly TargetConfig[]): void {
  const envelope = 'svc.serde.envelope';
  if (values.get(envelope) !== 'cloudevents') {
    const given = ['mode', 'source'].map((part) => `svc.serde.cloudevents.${part}`).find(isGiven);
    if (given !== undefined)
      warn(given, `has no effect while ${envelope} is svc`, `Set ${envelope}: cloudevents`);
    return;
  }
  if (values.get(type) === 'AVRO') {
    const message = `must be svc when ${type} is AVRO: the schemas of svc hold its own envelope`;
    add(envelope, message, `Keep one of them: remove ${envelope}, or ${type}`);
  }
  for (const { index, eventType, headers } of targets) {
    const name = `svc.targets[${index}]`;
    const own = Object.keys(headers ?? {}).some(isAttributeHeader);
    if (own) {
      const message = `has a header whose name begins with ${attributePrefix}, where CloudEvents keep their attributes`;
      add(`${name}.headers`, message, 'Give it another name', targetsName);
    }
    if (eventType !== undefined && !isAttributeText(eventType)) {
      const message = 'holds a control character, or another that no attribute of a CloudEvent may hold';
      add(`${name}.eventType`, message, 'Give it another name', targetsName);
    }
  }
}

/** What AVRO needs, and what JSON does not. */
export function checkSerde(input: Findings, targets: readonly TargetConfig[]): void {
  const { values, settings, baseDir, ...findings } = input;
  const { isGiven, where, add, warn } = findings;
  checkCloudEvents(input, targets);
  if (values.get(type) !== 'AVRO') {
    // A variable that other programs know as well asks nothing of svc.
    const isShared = (name: string): boolean => /(?<!SVC_SERDE_)SCHEMA_REGISTRY_URL/.test(where(name) ?? '');
    const given = [...settings.keys()].find((name) => name.startsWith('svc.serde.schema') && !isShared(name));
    if (given !== undefined)
      warn(given, 'has no effect while svc.serde.type is JSON', 'Set svc.serde.type: AVRO');
    return;
  }
  const url = ofRegistry('url');
  if (values.get(url) === undefined) {
    const fix = `Set ${url}, such as http://localhost:8081`;
    add(url, 'is required when svc.serde.type is AVRO', fix, type);
  }
  const client = values.get('svc.broker.client');
  if (client === 'file' || (client === undefined && !isGiven('svc.broker.bootstrap-servers'))) {
    const message = 'must be JSON where events go to files (svc.broker.client: file)';
    const fix =
      'Send them to Kafka (svc.broker.bootstrap-servers), or set the environment variable SVC_SERDE_TYPE=JSON';
    add(type, message, fix);
  }
  const [first, second] = ['username', 'token', 'token-file'].filter((way) => isGiven(ofRegistry(way)));
  if (second !== undefined) {
    const message = `is a second way to sign in beside schema-registry-${first}`;
    add(ofRegistry(second), message, 'Keep one of them');
  }
  const address = String(values.get(url) ?? '');
  if (
    first !== undefined &&
    address.startsWith('http:') &&
    !isLoopback(new URL(address).hostname.replace(/^\[|\]$/g, ''))
  ) {
    const what = first === 'username' ? 'password' : 'token';
    warn(url, `sends the ${what} of the schema registry unencrypted`, 'Use an https address');
  }
  for (const part of ['token-file', 'ca-file']) findings.mustBeReadable(ofRegistry(part));
  for (const [eventType, [file = '', ...more]] of Object.entries((values.get(ofSchemas) ?? {}) as Names)) {
    const why = more.length > 0 ? 'names more than one file' : noSchema(resolve(baseDir, file));
    if (why === undefined) continue;
    add(ofSchemas, `of event type ${eventType} ${why}`, 'Name one file with an Avro schema (.avsc)');
  }
}

/** Whether its types are right, the library says that reads it. */
function noSchema(path: string): string | undefined {
  const why = unreadable(path);
  if (why !== undefined) return why;
  try {
    const schema: unknown = JSON.parse(readBoundedSync(path).toString());
    return typeof schema === 'object' && schema !== null
      ? undefined
      : 'names a file without a schema of Avro';
  } catch {
    return 'names a file that is no JSON';
  }
}
