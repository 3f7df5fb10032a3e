// across/: what options ask of each other, a file for each part of the configuration.

import { accessSync, constants } from 'node:fs';
import { resolve } from 'node:path';
import { isLoopback } from '../../../ground/addresses.ts';
import { variableOf } from '../../schema/option.ts';
import type { TargetConfig } from '../../schema/target.ts';
import type { CheckInput, CheckResult } from '../check-input.ts';
import type { Problem } from '../problem.ts';
import { topicRequired } from '../validate.ts';
import { checkKafkaClient } from './kafka-client.ts';
import { checkPii } from './pii.ts';
import { checkSasl } from './sasl.ts';
import { checkSerde } from './serde.ts';

/** What options ask of each other. */
export function checkAcrossOptions(input: CheckInput, targets: readonly TargetConfig[]): CheckResult {
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const { values, settings } = input;
  const isGiven = (name: string) => settings.has(name);
  const where = (name: string) => settings.get(name)?.where();
  const require = (name: string, message: string) => {
    if (isGiven(name)) return;
    problems.push({
      name,
      message,
      fix: `Set ${name} in the file, or the environment variable ${variableOf(name)}`,
    });
  };
  const isEmpty = (name: string) => ((values.get(name) as readonly string[] | undefined) ?? []).length === 0;
  const warn = (name: string, message: string, fix: string) =>
    warnings.push({ name, message, where: where(name), fix });

  require('svc.broker.topic', topicRequired);

  const tls = ['ca-file', 'cert-file', 'key-file', 'server-name'].map((part) => `svc.broker.tls.${part}`);
  const [, cert = '', key = ''] = tls;
  if (isGiven(cert) !== isGiven(key))
    require(isGiven(cert) ? key : cert, 'is required: certificate and key go together');
  for (const name of tls.filter(isGiven)) {
    if (values.get('svc.broker.tls.enabled') === false) {
      warn(name, 'has no effect while svc.broker.tls.enabled is false', 'Set svc.broker.tls.enabled: true');
    } else if (name.endsWith('-file')) problems.push(...checkReadable(name, input));
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
    problems.push({ name, message, where: where(of), fix });
  }

  if (values.get('svc.broker.backup.s3-enabled') === true) {
    require('svc.broker.backup.s3-bucket', 's3Bucket is required when s3Enabled=true');
  }

  const datasource = 'svc.outbox.datasource.url';
  const isOutboxOn = values.get('svc.outbox.enabled') === true;
  if (isOutboxOn && !isGiven(datasource)) {
    const message = 'is required when svc.outbox.enabled is true';
    const fix = `Set it in the file, or one of the environment variables ${variableOf(datasource)} and DATABASE_URL`;
    problems.push({ name: datasource, message, where: where('svc.outbox.enabled'), fix });
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
    problems.push({
      name,
      message,
      where: where(name),
      fix: 'Name a topic of its own, such as orders.events.dlq.v1',
    });
  }
  const further = [checkKafkaClient(input), checkSasl(input), checkSerde(input), checkPii(input, targets)];
  return {
    problems: [...problems, ...further.flatMap((each) => each.problems)],
    warnings: [...warnings, ...further.flatMap((each) => each.warnings)],
  };
}

function checkReadable(name: string, { values, settings, baseDir }: CheckInput): Problem[] {
  const file = values.get(name);
  if (typeof file !== 'string') return [];
  const path = resolve(baseDir, file);
  try {
    accessSync(path, constants.R_OK);
    return [];
  } catch (error) {
    const where = settings.get(name)?.where();
    return [
      {
        name,
        message: `names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`,
        where,
        fix: 'Correct the path or its rights',
      },
    ];
  }
}
