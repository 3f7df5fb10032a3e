// schema/: the list of everything that can be set; documentation, types and JSON Schema are made from it.

import { brokerOptions } from './broker.ts';
import { contextOptions } from './context.ts';
import { managementOptions } from './management.ts';
import type { Option, Row, Rows } from './option.ts';
import { outboxOptions } from './outbox.ts';
import { piiOptions } from './pii.ts';
import { serdeOptions } from './serde.ts';
import { serviceOptions } from './service.ts';

const table = {
  ...serviceOptions,
  ...brokerOptions,
  ...outboxOptions,
  ...contextOptions,
  ...serdeOptions,
  ...piiOptions,
  ...managementOptions,
} as const satisfies Rows;

/** As it stands there, for the types of the values. */
export type OptionTable = typeof table;

/** Every option there is, `svc.targets` apart: the only list, read by validation, documentation and JSON Schema. */
export const options: readonly Option[] = Object.entries<Row>(table).map(([name, row]) => ({ name, ...row }));

/** The list of publish targets: a name like the options', with checks of its own (`target-fields.ts`). */
export const targetsName = 'svc.targets';

const byName: ReadonlyMap<string, Option> = new Map(options.map((option) => [option.name, option]));

const sections: ReadonlySet<string> = sectionsOf(options);

export function optionNamed(name: string): Option | undefined {
  return byName.get(name);
}

/** True for `svc.broker`, which holds options but is none. */
export function isSection(name: string): boolean {
  return sections.has(name);
}

/** Whatever a user can write a name for: options, sections and `svc.targets`. */
export function knownNames(): string[] {
  return [...byName.keys(), targetsName, ...sections];
}

/** Each process makes them as it starts: the loop costs a tenth of what splitting all names does. */
function sectionsOf(all: readonly Option[]): Set<string> {
  const found = new Set<string>();
  for (const { name } of all)
    for (let dot = name.indexOf('.'); dot > 0; dot = name.indexOf('.', dot + 1))
      found.add(name.slice(0, dot));
  return found;
}
