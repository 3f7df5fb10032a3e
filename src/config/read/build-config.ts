import { resolve } from 'node:path';
import type { Values } from '../check/validate.ts';
import type { Config, OptionValues } from '../config.ts';
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
    place(root, option, finish(option, values, baseDir));
  }
  // Its type is made from the same list.
  return { ...(root as OptionValues), targets, baseDir, file };
}

function finish(option: Option, values: Values, baseDir: string): unknown {
  const value = values.get(option.name);
  if (option.format === 'path' && typeof value === 'string') return resolve(baseDir, value);
  switch (option.name) {
    case 'svc.broker.client':
      return (
        value ?? ((values.get('svc.broker.bootstrap-servers') as string[]).length > 0 ? 'kafkajs' : 'file')
      );
    case 'svc.broker.topic':
      return value ?? '';
    case 'svc.service.name':
    case 'svc.service.version':
      return value ?? null;
    case 'svc.outbox.datasource.url':
      return typeof value === 'string'
        ? value.replace(/^(sqlite:)(.+)$/, (_, scheme, path) => scheme + resolve(baseDir, path))
        : value;
    case 'svc.pii.crypto.keys':
      return value ?? [];
    case 'svc.context.correlation-id.headers':
      return (value as string[]).map((name) => name.toLowerCase());
    default:
      return value;
  }
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
