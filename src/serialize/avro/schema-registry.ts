/** A subject of the registry: versions of a schema that must be compatible. */
export interface Subject {
  readonly subject: string;
  /** The schema as JSON. */
  readonly schema: string;
}

/**
 * PORT: a schema registry with Confluent's API. Methods reject with an `SvcError` that names the registry and holds no password:
 * - `SVC_SERIALIZE_REGISTRY_AWAY`: no answer for now (unreachable, hanging, an internal error, or missing rights);
 * - `SVC_SERIALIZE_SCHEMA_REFUSED`: the schema itself is refused.
 */
export interface SchemaRegistry {
  /** `http://host:8081`, for messages. */
  readonly address: string;
  /** The id of the schema. Registers it if needed. */
  register(subject: Subject): Promise<number>;
  /** The id of the schema. Rejects if it is not registered under the subject. */
  lookUp(subject: Subject): Promise<number>;
  /** `undefined`: the subject has no schema. */
  isCompatible(subject: Subject): Promise<boolean | undefined>;
  /** The schema with this id, as JSON. */
  schemaOf(id: number): Promise<string>;
}
