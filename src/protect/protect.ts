// protect/: from an envelope to something that may leave the process. The walk on top, what it asks in rooms.

import type { Envelope } from '../envelope/envelope.ts';
import { nodeCrypto } from '../ground/builtins.ts';
import { type Clock, systemClock } from '../ground/clock.ts';
import { SvcError } from '../ground/errors.ts';
import type { ClearText } from './clear-texts.ts';
import { hasMarks } from './marks/class-marks.ts';
import type { Policy } from './marks/policy.ts';
import type { SealedField, Sealer } from './sealer.ts';
import { type Step, walkPayload } from './walk.ts';

declare const protectedMark: unique symbol;

/** An envelope that may leave the process. Only a protector makes one, and serializers take nothing else. */
export interface ProtectedEnvelope extends Omit<Envelope, 'payload'> {
  readonly payload: Readonly<Record<string, unknown>>;
  /** The ciphertexts and hashes in it: whoever writes it marks all else that looks so, see `own-text.ts`. */
  readonly sealed: readonly string[];
  readonly [protectedMark]: true;
}

/** An event that waits for its key. */
export type Unsealed = UnsealedError<ProtectedEnvelope>;

/**
 * The only way from an envelope to something that can be serialized. It fails closed: what cannot be represented or protected
 * safely throws an `SvcError` that names no value, and the event is refused. A payload that is no object becomes
 * `{ "value": … }`.
 *
 * @param clearTexts what the application lets out in clear beside the payload, such as the record key; the event is refused where
 *   one of them is a protected value, or holds one
 */
export type Protect = (envelope: Envelope, clearTexts?: readonly ClearText[]) => ProtectedEnvelope;

export interface ProtectorOptions {
  /** The rules of an event type. Called once per event. */
  readonly policyOf: (eventType: string) => Policy;
  readonly sealer: Sealer;
  /** Told of unmarked values: `svc.pii.detect: report`. */
  readonly detect?: Detect | undefined;
  /** Told of marked fields that hold objects whose text nobody but their class can read. */
  readonly onUnreadable?: ((eventType: string, field: string) => void) | undefined;
  /** False: marks of classes have no effect. Default: true. */
  readonly usesMarks?: boolean;
  /** The form of events has bytes and BigInts of its own: they are not made text. Default: false. */
  readonly keepsTypes?: boolean;
  /** Where a key cannot be had for now, the event is an `UnsealedError`, which can be sealed later. Default: false. */
  readonly defers?: boolean;
  /** Default: that of the system. */
  readonly clock?: Pick<Clock, 'monotonic'>;
}

/** Looks at one unmarked value. `keys` lead to it from the root of the payload. */
export type Detect = (eventType: string, value: string | number, keys: readonly Step[]) => void;

/** Protects payloads by the marks of their classes and by the rules of their event type. */
export function createProtector(options: ProtectorOptions): Protect {
  const {
    policyOf,
    detect,
    onUnreadable,
    keepsTypes,
    usesMarks = true,
    clock: { monotonic } = systemClock,
  } = options;
  return (envelope, clearTexts) => {
    const { payload: given } = envelope;
    const { eventType } = envelope.template;
    const policy = policyOf(eventType);
    const sealed: string[] = [];
    const deferring = options.defers ? new DeferringSealer(options.sealer) : undefined;
    const sealer = deferring ?? options.sealer;
    const payload = walkPayload(given, {
      eventType,
      policy,
      sealer,
      usesMarks: usesMarks && hasMarks(),
      sealed,
      onUnmarked: detect && ((value, keys) => detect(eventType, value, keys)),
      onUnreadable: onUnreadable && ((field) => onUnreadable(eventType, field)),
      keepsTypes,
      clearTexts,
      monotonic,
    });
    const isObject = typeof payload === 'object' && payload !== null && !Array.isArray(payload);
    const result = {
      eventId: envelope.eventId,
      template: envelope.template,
      occurredAt: envelope.occurredAt,
      trace: envelope.trace,
      origin: envelope.origin,
      payload: (isObject ? payload : { value: payload ?? null }) as Record<string, unknown>,
      sealed,
    };
    const protectedOne = result as object as ProtectedEnvelope;
    if (deferring?.reason === undefined) return protectedOne;
    throw new UnsealedError(deferring.reason, () => {
      deferring.fill(result.payload, sealed);
      return protectedOne;
    });
  };
}

/**
 * A payload that was read, and whose key cannot be had for now. Whoever knows nothing of waiting refuses the event, as with any
 * other error. It holds values in clear: in memory only, and in no text.
 */
export class UnsealedError<Sealed> extends SvcError {
  /** What the event is once the key is there; throws the reason again until then. */
  readonly seal: () => Sealed;

  constructor({ code, message, name }: SvcError, seal: () => Sealed) {
    super(code, message, { name });
    // In no dump of the error.
    Object.defineProperty(this, 'seal', { enumerable: false });
    this.seal = seal;
  }
}

interface Deferred {
  readonly token: string;
  readonly plain: string;
  readonly field: SealedField;
}

/** Seals the values of one event, and leaves tokens for those whose key is not there. */
class DeferringSealer implements Sealer {
  readonly hash: Sealer['hash'];
  readonly #sealer: Sealer;
  readonly #deferred: Deferred[] = [];
  #reason: SvcError | undefined;

  constructor(sealer: Sealer) {
    this.#sealer = sealer;
    this.hash = (plain) => sealer.hash(plain);
  }

  /** Why a key is missing; `undefined`: none is. */
  get reason(): SvcError | undefined {
    return this.#reason;
  }

  encrypt(plain: string, field: SealedField): string {
    try {
      return this.#sealer.encrypt(plain, field);
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== 'SVC_PROTECT_KEY_UNAVAILABLE') throw error;
      this.#reason ??= error;
      const token = `ENC(${nodeCrypto().randomUUID()})`;
      const { keyId, eventType, path } = field;
      this.#deferred.push({ token, plain, field: { keyId, eventType, path } });
      return token;
    }
  }

  /** Puts ciphertexts in the place of the tokens: of all or of none, where it throws. */
  fill(payload: Record<string, unknown>, sealed: string[]): void {
    const texts = new Map(
      this.#deferred.map(({ token, plain, field }) => [token, this.#sealer.encrypt(plain, field)]),
    );
    replaceIn(payload, texts);
    replaceIn(sealed, texts);
  }
}

/** In the copy that the walk has made. */
function replaceIn(parts: Record<string, unknown> | unknown[], texts: ReadonlyMap<string, string>): void {
  const all = parts as Record<string, unknown>;
  for (const key of Object.keys(all)) {
    const part = all[key];
    if (typeof part === 'string') {
      const text = texts.get(part);
      if (text !== undefined) all[key] = text;
    } else if (typeof part === 'object' && part !== null) replaceIn(part as Record<string, unknown>, texts);
  }
}
