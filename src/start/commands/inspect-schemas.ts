import type { Config } from '../../config/config.ts';
import type { SvcError } from '../../ground/errors.ts';
import { subjectOf } from '../../serialize/avro/schema-ids.ts';
import { eventTypeOf } from '../plans.ts';
import { codecsOf, openRegistry } from '../serde/open-avro.ts';

/** What the registry says to the schemas of the configured targets. */
export interface SchemasReport {
  readonly registry: string;
  readonly schemas: readonly SchemaReport[];
}

export interface SchemaReport {
  readonly eventType: string;
  readonly subject?: string;
  /** `registered`: it is there. `compatible`: it would be a new version. `new`: it would be the first. */
  readonly state?: 'registered' | 'compatible' | 'new';
  /** One line. */
  readonly problem?: string;
}

/** Registers nothing. `undefined`: events are no Avro. Never rejects. */
export async function inspectSchemas(config: Config): Promise<SchemasReport | undefined> {
  const { type, subjectNameStrategy, autoRegister, schemaRegistryUrl = '' } = config.serde;
  if (type === 'JSON') return undefined;
  const registry = openRegistry(config);
  const codecOf = codecsOf(config);

  async function ask(eventType: string, topic: string): Promise<SchemaReport> {
    let subject: string | undefined;
    try {
      const { name, schema } = codecOf(eventType);
      subject = subjectOf(subjectNameStrategy, topic, name);
      if (!autoRegister) {
        await registry.lookUp({ subject, schema });
        return { eventType, subject, state: 'registered' };
      }
      const isCompatible = await registry.isCompatible({ subject, schema });
      if (isCompatible !== false)
        return { eventType, subject, state: isCompatible === undefined ? 'new' : 'compatible' };
      const problem = `the schema of ${eventType} is not compatible with what subject ${subject} holds: change it, or the compatibility of the subject`;
      return { eventType, subject, problem };
    } catch (error) {
      return { eventType, ...(subject && { subject }), problem: (error as SvcError).message };
    }
  }

  const asked = new Map(
    config.targets.map((target) => {
      const of = [eventTypeOf(target), target.topic ?? config.broker.topic] as const;
      return [of.join('\n'), of];
    }),
  );
  const schemas = await Promise.all([...asked.values()].map(([eventType, topic]) => ask(eventType, topic)));
  return { registry: schemaRegistryUrl, schemas };
}
