import { resolve } from 'node:path';
import type { Values } from '../check/validate.ts';
import type { Config } from '../config.ts';
import { camelCase, type Option } from '../schema/option.ts';
import { options } from '../schema/schema.ts';
import type { TargetConfig } from '../schema/target.ts';

export interface ConfigParts {
  readonly values: Values;
  readonly targets: readonly TargetConfig[];
  readonly baseDir: string;
  readonly file: string | undefined;
}

type Tree = { [name: string]: unknown };

/** Puts checked values where `Config` has them: `svc.broker.client-id` at `broker.clientId`. */
export function buildConfig({ values, targets, baseDir, file }: ConfigParts): Config {
  const root: Tree = {};
  for (const option of options) {
    if (option.status === 'active') place(root, option, finish(option, values.get(option.name), baseDir));
  }
  const config = root as unknown as { -readonly [name in keyof Config]: Config[name] };
  const { broker, service } = config;
  const client = broker.client ?? (broker.bootstrapServers.length > 0 ? 'kafkajs' : 'file');
  config.broker = { ...broker, client, topic: broker.topic ?? '' };
  config.service = { name: service.name ?? null, version: service.version ?? null };
  config.targets = targets;
  config.baseDir = baseDir;
  config.file = file;
  return config;
}

function finish(option: Option, value: unknown, baseDir: string): unknown {
  if (option.format === 'path' && typeof value === 'string') return resolve(baseDir, value);
  if (option.type === 'keys') return value ?? [];
  if (option.name === 'svc.context.correlation-id.headers')
    return (value as string[]).map((name) => name.toLowerCase());
  return value;
}

function place(root: Tree, option: Option, value: unknown): void {
  const path = option.name.split('.').map(camelCase);
  if (path[0] === 'svc') path.shift();
  const last = path.pop() ?? '';
  let section = root;
  for (const part of path) {
    section[part] ??= {};
    section = section[part] as Tree;
  }
  section[last] = value;
}
