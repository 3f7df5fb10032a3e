import type { Option } from './option.ts';

/** Known names whose feature comes with a later version. They are checked already, so that a file stays valid. */
export const laterOptions = [
  {
    ...text('svc.serde.type', 'Form of the record value.', { default: 'JSON', harmless: ['JSON'] }),
    type: 'enum',
    values: ['JSON'],
    laterValues: { AVRO: 'Avro is not yet available in this version' },
  },
  text('svc.serde.schema-registry-url', 'Schema registry for Avro.', { format: 'url' }),
] as const satisfies readonly Option[];

type Rest = Partial<Omit<Option, 'name' | 'type' | 'description' | 'status'>>;

function text(name: string, description: string, rest: Rest = {}): Option {
  return { name, type: 'string', description, status: 'later', ...rest };
}
