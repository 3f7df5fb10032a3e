/** Under a subject the registry keeps the versions of a schema that must be compatible with each other. */
export interface Subject {
  readonly subject: string;
  /** The schema as JSON. */
  readonly schema: string;
}

/**
 * PORT: a schema registry with Confluent's API. All methods reject with an `SvcError` whose message names the registry and holds
 * no password: `SVC_SERIALIZE_REGISTRY_AWAY` where no answer can be had for now (unreachable, hanging, an error of its own, or
 * rights that are missing), `SVC_SERIALIZE_SCHEMA_REFUSED` where the schema itself is at fault.
 */
export interface SchemaRegistry {
  /** `http://host:8081`, as messages name it. */
  readonly address: string;
  /** The id of the schema, which is registered where it is not yet. */
  register(subject: Subject): Promise<number>;
  /** The id of the schema, which must be registered under the subject. */
  lookUp(subject: Subject): Promise<number>;
  /** `undefined`: nothing is registered under the subject. */
  isCompatible(subject: Subject): Promise<boolean | undefined>;
  /** The schema of an id, as JSON. */
  schemaOf(id: number): Promise<string>;
}
