// across/: what options ask of each other, a file for each part of the configuration.

import { resolve } from 'node:path';
import { isLoopback } from '../../../ground/addresses.ts';
import { changeableByOthers } from '../../../ground/files/foreign-file.ts';
import { variableOf } from '../../schema/option.ts';
import type { TargetConfig } from '../../schema/target.ts';
import type { Names } from '../names.ts';
import { topicRequired } from '../validate.ts';
import { type CheckInput, type Findings, openFindings } from './findings.ts';
import { checkKafkaClient } from './kafka-client.ts';
import { checkPii } from './pii.ts';
import { checkSasl } from './sasl.ts';
import { checkSerde } from './serde.ts';

/** What options ask of each other. */
export function checkAcrossOptions(
  input: CheckInput,
  targets: readonly TargetConfig[],
): Pick<Findings, 'problems' | 'warnings'> {
  const findings = openFindings(input);
  const { values, isGiven, isEmpty, add, warn, require } = findings;

  require('svc.broker.topic', topicRequired);

  const tls = ['ca-file', 'cert-file', 'key-file', 'server-name'].map((part) => `svc.broker.tls.${part}`);
  const [, cert = '', key = ''] = tls;
  if (isGiven(cert) !== isGiven(key))
    require(isGiven(cert) ? key : cert, 'is required: certificate and key go together');
  for (const name of tls.filter(isGiven)) {
    if (values.get('svc.broker.tls.enabled') === false) {
      warn(name, 'has no effect while svc.broker.tls.enabled is false', 'Set svc.broker.tls.enabled: true');
    } else if (name.endsWith('-file')) findings.mustBeReadable(name);
  }

  for (const [name, path] of namedFiles(findings)) {
    const why = changeableByOthers(resolve(input.baseDir, path));
    if (why === undefined) continue;
    const message = `names a file that others can change: ${why}`;
    warn(name, message, 'Change its owner or its mode: chown, chmod go-w');
  }

  if (values.get('svc.security.use-forwarded-headers') === true && isEmpty('svc.security.trusted-proxies')) {
    const message = 'believes nobody: svc.security.trusted-proxies is empty';
    warn('svc.security.use-forwarded-headers', message, 'List the addresses of your proxies');
  }

  const address = String(values.get('management.server.address'));
  const publicUrl = 'management.server.public-url';
  if ((!isLoopback(address) || isGiven(publicUrl)) && !isGiven('management.server.token')) {
    const name = 'management.server.token';
    const [of, what, other] = isLoopback(address)
      ? [publicUrl, 'is set: the proxy makes everybody a local client', 'leave the proxy out']
      : ['management.server.address', 'is not a loopback address', 'listen on 127.0.0.1'];
    const message = `is required when ${of} ${what}`;
    const fix = `Set the environment variable ${variableOf(name)}, or ${other}`;
    add(name, message, fix, of);
  }

  if (values.get('svc.broker.backup.s3-enabled') === true) {
    require('svc.broker.backup.s3-bucket', 's3Bucket is required when s3Enabled=true');
  }

  const format = values.get('svc.broker.backup.format');
  const order = 'svc.broker.backup.drain.order';
  if (values.get(order) === 'key' && ['event', 'record'].includes(String(format))) {
    const message = `key needs the journal, and svc.broker.backup.format is ${format}: files keep no order`;
    add(order, message, 'Remove it, or set svc.broker.backup.format: journal');
  }

  const datasource = 'svc.outbox.datasource.url';
  const isOutboxOn = values.get('svc.outbox.enabled') === true;
  if (isOutboxOn && !isGiven(datasource)) {
    const message = 'is required when svc.outbox.enabled is true';
    const fix = `Set it in the file, or one of the environment variables ${variableOf(datasource)} and DATABASE_URL`;
    add(datasource, message, fix, 'svc.outbox.enabled');
  }

  if (isOutboxOn && values.get('svc.outbox.cleanup-enabled') === false) {
    const kept = ['svc.outbox.retention-days', 'svc.outbox.failed-retention-days'];
    for (const name of kept.filter((each) => isGiven(each) && values.get(each) !== 0)) {
      const message = 'has no effect while svc.outbox.cleanup-enabled is false';
      warn(name, message, 'Set svc.outbox.cleanup-enabled: true');
    }
  }

  const dlqTopic = values.get('svc.broker.dlq-topic');
  const ofTarget = targets.find(({ topic }) => topic !== undefined && topic === dlqTopic);
  if (dlqTopic !== undefined && (dlqTopic === values.get('svc.broker.topic') || ofTarget !== undefined)) {
    const name = 'svc.broker.dlq-topic';
    const of = ofTarget === undefined ? '' : ` of target ${ofTarget.id}`;
    const message = `dlqTopic must differ from topic${of}: dead letters would be read as events`;
    add(name, message, 'Name a topic of its own, such as orders.events.dlq.v1');
  }
  checkKafkaClient(findings);
  checkSasl(findings);
  checkSerde(findings, targets);
  checkPii(findings, targets);
  return findings;
}

/** Keys, tokens, certificates and schemas, by their options. */
function namedFiles({ values, settings }: Findings): [name: string, path: string][] {
  const single = [...settings.keys()].filter((name) => name.endsWith('-file'));
  const schemas = Object.values((values.get('svc.serde.schemas') ?? {}) as Names).flat();
  return [
    ...single.flatMap((name): [string, string][] => {
      const path = values.get(name);
      return typeof path === 'string' ? [[name, path]] : [];
    }),
    ...schemas.map((path): [string, string] => ['svc.serde.schemas', path]),
  ];
}
