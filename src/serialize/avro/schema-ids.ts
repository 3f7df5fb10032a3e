import type { Clock } from '../../ground/clock.ts';
import { SvcError } from '../../ground/errors.ts';
import type { EventCodec } from './event-codec.ts';
import type { SchemaRegistry, Subject } from './schema-registry.ts';

/** Confluent's names, without their ending. */
type SubjectNameStrategy = 'topic' | 'record' | 'topic-record';

/** The subject that a value's schema is registered under. */
export function subjectOf(strategy: SubjectNameStrategy, topic: string, name: string): string {
  if (strategy === 'topic') return `${topic}-value`;
  return strategy === 'record' ? name : `${topic}-${name}`;
}

export interface SchemaIdsOptions {
  readonly registry: SchemaRegistry;
  readonly strategy: SubjectNameStrategy;
  /** Else a schema must be there already. */
  readonly autoRegister: boolean;
  readonly clock: Clock;
  /** Called with each outage, and with its end. */
  readonly onAway: (message: string) => void;
  readonly onBack: () => void;
  /** Called each time when it does not take a schema. */
  readonly onRefused: (error: SvcError) => void;
}

/** What the registry calls the schemas of this process: each is asked for once. */
export interface SchemaIds {
  /** `undefined`: not known yet. At once. */
  known(codec: EventCodec, topic: string): number | undefined;
  /** Asks for it where it is not known. Rejects as the registry does. */
  ask(codec: EventCodec, topic: string): Promise<number>;
}

/** How soon a registry that is away is asked again. */
const awayMs = 1_000;
/** How soon a schema that it refused is offered again: somebody may have changed the rules of its subject. */
const refusedMs = 10_000;

type Failed = { readonly error: SvcError; readonly untilMs: number };

export function createSchemaIds({
  registry,
  strategy,
  autoRegister,
  ...options
}: SchemaIdsOptions): SchemaIds {
  const { clock, onAway, onBack, onRefused } = options;
  const ids = new Map<string, number>();
  const failures = new Map<string, Failed>();
  const asking = new Map<string, Promise<number>>();
  let isAway = false;

  const keyOf = (codec: EventCodec, topic: string): string => subjectOf(strategy, topic, codec.name);

  async function answer(key: string, subject: Subject): Promise<number> {
    try {
      const id = await (autoRegister ? registry.register(subject) : registry.lookUp(subject));
      ids.set(key, id);
      failures.delete(key);
      heard(false);
      return id;
    } catch (thrown) {
      const error = asError(thrown, registry.address);
      const refused = error.code === 'SVC_SERIALIZE_SCHEMA_REFUSED';
      failures.set(key, { error, untilMs: clock.monotonic() + (refused ? refusedMs : awayMs) });
      heard(!refused, error.message);
      if (refused) onRefused(error);
      throw error;
    } finally {
      asking.delete(key);
    }
  }

  function heard(away: boolean, message = ''): void {
    if (away === isAway) return;
    isAway = away;
    if (away) onAway(message);
    else onBack();
  }

  return {
    known: (codec, topic) => ids.get(`${keyOf(codec, topic)} ${codec.eventType}`),
    async ask(codec, topic) {
      const subject = keyOf(codec, topic);
      const key = `${subject} ${codec.eventType}`;
      const id = ids.get(key);
      if (id !== undefined) return id;
      const failed = failures.get(key);
      if (failed !== undefined && clock.monotonic() < failed.untilMs) throw failed.error;
      let asked = asking.get(key);
      if (asked === undefined) {
        asked = answer(key, { subject, schema: codec.schema });
        asking.set(key, asked);
      }
      return asked;
    },
  };
}

function asError(thrown: unknown, address: string): SvcError {
  if (thrown instanceof SvcError) return thrown;
  return new SvcError('SVC_SERIALIZE_REGISTRY_AWAY', `schema registry at ${address}: an unexpected error`);
}
