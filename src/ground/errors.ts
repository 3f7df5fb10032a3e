// ground/: the base of every other folder, and the facts that two of them must agree on.

import { shared } from './lifecycle.ts';

/**
 * Every error that svc raises, by its stable code. Callers match `error.code`; the texts may change. The middle word of a code
 * is the folder or entry that raises it, or its file in `start/`. `docs/errors.md` lists the same codes (tested).
 */
export const errorCatalogue = {
  SVC_ADAPTERS_BACKUP_BUSY: 'Another process is restoring or draining the same backup or dead letter topic.',
  SVC_ADAPTERS_BACKUP_DIRECTORY:
    'The folder of the local backup cannot be created, or others could read it or write to it.',
  SVC_ADAPTERS_BACKUP_FAILED: 'A backup could not be written or read. The message gives place and reason.',
  SVC_ADAPTERS_BACKUP_FULL:
    'The local backup already holds svc.broker.backup.max-bytes, its disk is too slow, or an event is too large for it.',
  SVC_ADAPTERS_BATCH_TOO_LARGE:
    'A compressed batch of records expands to more than 64 MiB, or than 16 times its own size, or has more than 100,000 records.',
  SVC_ADAPTERS_MARKS_FULL:
    'A recovery with filters leaves more gaps in a dead letter topic than Kafka can store.',
  SVC_ADAPTERS_NOT_REACHABLE:
    'The broker cannot be reached or used. The message gives the reason and what to check.',
  SVC_ADAPTERS_OPTIONS: 'An option of createAvroReader() is invalid.',
  SVC_ADAPTERS_PACKAGE_MISSING:
    'A package that the configuration needs is not installed. The message names it.',
  SVC_ADAPTERS_TOKEN: 'No token for Kafka is available. The message gives the reason and what to check.',
  SVC_ADAPTERS_TLS_FILE: 'A certificate or key file named in svc.broker.tls cannot be read or used.',
  SVC_CAPTURE_EXPRESSION:
    'A payload or key expression, or its function, failed for one call. That call has no event.',
  SVC_CAPTURE_EXPRESSION_ASYNC:
    'A payload or key expression returned a promise, but events are built synchronously.',
  SVC_CAPTURE_EXPRESSION_NAME: 'An expression uses a name that the captured function does not have.',
  SVC_CAPTURE_EXPRESSION_SYNTAX:
    'An expression cannot be parsed, or uses something that read-only expressions must not use.',
  SVC_CAPTURE_HEADERS:
    'A target declares an invalid header, or a call gave a header a value that is not a string.',
  SVC_CAPTURE_PAYLOAD_INDEX:
    'payloadIndex is not -1 or a position, or the call had no argument at that position.',
  SVC_CONSUME_HANDLER_HANGS: 'A handler of consumeOnce() exceeds its time limit. Its partition waits.',
  SVC_CONSUME_NOT_AN_EVENT: 'An inbox got a value without an event id.',
  SVC_CONSUME_OPTIONS: 'An option of createInbox() or consumeOnce() is invalid.',
  SVC_CONSUME_TABLE_MISSING: 'The table of an inbox does not exist, or is not as svc creates it.',
  SVC_CONSUME_UNKNOWN_TYPE:
    'consumeOnce() has no handler for an event type. Its events go to the dead letters.',
  SVC_CONSUME_UNREADABLE:
    'The value of a record is not an event that this svc can read. It goes to the dead letters of the consumer.',
  SVC_CONSUME_UPCAST:
    'A function of upcast, which converts older payloads, failed. The event goes to the dead letters of the consumer.',
  SVC_CONSUMER_KEYS_FILE: 'A file with decryption keys cannot be read, or has the wrong form.',
  SVC_CONSUMER_NOT_AN_ENVELOPE: 'The value to decrypt is not an envelope of svc.',
  SVC_CONSUMER_FIELD_NOT_NAMED:
    'A ciphertext of format v0 is in a field that is not allowed for decryption. Format v0 can be decrypted wherever it is copied to.',
  SVC_CONSUMER_OPTIONS:
    'An option of createDecryptionKeys(), decryptFields() or a related function is invalid.',
  SVC_CONTEXT_BAD_ACTOR_SOURCE:
    'A source of userId or sessionId is not header:…, baggage:…, request:… or a function.',
  SVC_CONTEXT_BAD_HEADER_NAME: 'The configuration has an invalid name of a request or response header.',
  SVC_CONTEXT_BAD_TRUSTED_PROXY: 'An entry of the trusted proxies is not an address, a CIDR range or "unix".',
  SVC_CONTEXT_VALUES: 'A value for setContext() or runWithContext() is invalid.',
  SVC_ENVELOPE_CLOCK_MOVED_BACKWARDS: 'The clock moved back further than event ids tolerate.',
  SVC_ENVELOPE_CLOCK_OUT_OF_RANGE:
    'The clock is outside the 69 years from 2024 on that event ids can express.',
  SVC_ENVELOPE_WORKER_ID: 'The configured worker id is not an integer from 0 to 1023.',
  SVC_GROUND_BUCKET_CLIENT: 'The argument of registerS3Client() is not a client of @aws-sdk/client-s3.',
  SVC_GROUND_PROCESS_FILE:
    'The folder in which the processes of a user register their management servers is unsafe or unusable.',
  SVC_MANAGE_LISTEN_FAILED:
    'The management server cannot listen on its port. The application runs without it.',
  SVC_MANAGE_TOKEN_REQUIRED:
    'The management server does not start on an address other than loopback without a token of 16 characters or more.',
  SVC_CAPTURE_RULE: 'A target declared in code has an invalid value. Its function is not captured.',
  SVC_CAPTURE_RESULT_UNKNOWN:
    'A function commits its own transaction before it returns, but its event for the outbox needs what it returns.',
  SVC_OUTBOX_INSERT: 'The database rejected the row of an event. The transaction is rolled back.',
  SVC_OUTBOX_COMMITTED: 'The transaction of a call was committed before the call ended, without its event.',
  SVC_OUTBOX_NO_TRANSACTION: 'An event for the outbox was made outside any transaction.',
  SVC_OUTBOX_SEVERAL_TRANSACTIONS:
    'A call took part in more than one open transaction, so svc does not know which one its event belongs to.',
  SVC_OBSERVE_LOGGER: 'The argument of setLogger() is not a logger.',
  SVC_OUTBOX_AGGREGATE_ID:
    'A call of a target with an outbox has no aggregate id, an empty one, or one that is not a string. The call fails.',
  SVC_OUTBOX_CONTRADICTION:
    'The table of the outbox does not fit the settings of this process, and events would be lost. Calls fail.',
  SVC_OUTBOX_DATA_SOURCE: 'outbox.runInTransaction() cannot open a transaction on its argument.',
  SVC_OUTBOX_DRIVER:
    'svc cannot follow a driver that was passed to outbox.watch(), or a second SQLite in the process.',
  SVC_OUTBOX_EVENT: 'An event for outbox.save() lacks a field, or has an invalid one.',
  SVC_OUTBOX_EXECUTOR: 'The outbox got an executor that it cannot write through.',
  SVC_OUTBOX_STRAY_ROWS: 'The table of the outbox holds rows that another program wrote and no relay finds.',
  SVC_OUTBOX_TOO_LONG:
    'An event is too large for the table of the outbox or for a packet of the database. It is refused.',
  SVC_OUTBOX_NOT_RUNNING: 'outbox.save() was called in a process without svc or without an outbox.',
  SVC_OUTBOX_NOT_ALLOWED:
    'The database does not allow svc the permissions of the outbox: to create tables, to insert, or to write at all.',
  SVC_OUTBOX_OTHER_DATABASE:
    'A connection of the application uses another outbox table than svc. No relay would send its events, so the call fails.',
  SVC_OUTBOX_PACKAGE_MISSING:
    'The driver of the outbox database is not installed. The message names the package.',
  SVC_OUTBOX_READ_ONLY:
    'The database of the outbox rejects writes: it is a standby, or a failover is in progress.',
  SVC_OUTBOX_REPLAY_BUSY: 'A replay of the outbox is already running.',
  SVC_OUTBOX_REPLAY_OPTIONS: 'The time or limit of a replay is invalid. Nothing is sent.',
  SVC_OUTBOX_ROLLED_BACK:
    'The database has rolled back a transaction of outbox.runInTransaction() in place of its COMMIT.',
  SVC_OUTBOX_SCHEMA_VERSION:
    'The tables of the outbox belong to an older or newer version of svc, or another table has their name.',
  SVC_OUTBOX_SIGN_IN: 'The database of the outbox refuses user, password or the name of the database.',
  SVC_OUTBOX_STATEMENT: 'The database refused a statement of the outbox. The message gives its code.',
  SVC_OUTBOX_TABLE_MISSING: 'The tables of the outbox do not exist, or only some of them.',
  SVC_OUTBOX_UNREACHABLE: 'The database of the outbox cannot be reached, or has not answered in time.',
  SVC_OUTBOX_URL: 'The URL of the database of the outbox, or the name of its table, cannot be used.',
  SVC_PIPELINE_NO_OUTBOX:
    'A target with an outbox was called in a process without an outbox. The call fails; its event is not sent directly.',
  SVC_PIPELINE_UNEXPECTED: 'Code outside svc threw while an event was prepared. The event is refused.',
  SVC_PRELOAD_INSTRUMENTATION:
    'SvcInstrumentation does nothing, because @opentelemetry/instrumentation is missing or too old.',
  SVC_PRELOAD_SDK:
    'svc.telemetry.sdk is node, but the OpenTelemetry SDK cannot be started. The message gives the reason and the package to install.',
  SVC_PROTECT_BUDGET: 'A payload has too much to protect, or takes too long to read. Its event is refused.',
  SVC_PROTECT_CIPHERTEXT: 'A ciphertext is damaged: not Base64, cut off, or in no known layout.',
  SVC_PROTECT_DECRYPT_FAILED:
    'A ciphertext or data key did not pass its integrity check: wrong key, damaged, or moved from another field.',
  SVC_PROTECT_DEPTH_OR_CYCLE:
    'A payload is nested deeper than 64 levels or refers to itself. Its event is refused.',
  SVC_PROTECT_HEADER_IN_CLEAR:
    'A header is or holds the value of a marked field, or its expression reads one. Its event is refused.',
  SVC_PROTECT_KEY_ID: 'A key id has characters other than letters, digits, underscore and hyphen.',
  SVC_PROTECT_KEY_IN_CLEAR:
    'A record key is or holds the value of a marked field, or its expression reads one. Its event is refused.',
  SVC_PROTECT_KEY_LENGTH: 'An encryption key is neither 32 bytes in Base64 nor 32 characters.',
  SVC_PROTECT_KEY_LIST:
    'The list of encryption keys has two primary keys or one id twice, or conflicts with a key provider.',
  SVC_PROTECT_KEY_PROVIDER:
    'The argument of registerKeyProvider() is invalid or has no unique name, or svc.pii.kms.type names no registered provider.',
  SVC_PROTECT_KEY_REFUSED: 'The key service refuses a key for good: access denied, key disabled or unknown.',
  SVC_PROTECT_KEY_UNAVAILABLE: 'No encryption key is usable now. Events with fields to encrypt are refused.',
  SVC_PROTECT_KEY_UNKNOWN: 'A rule or a ciphertext names a key that is not configured, or not for this use.',
  SVC_PROTECT_KEY_USED_UP:
    'An encryption key has encrypted 2^32 values in one process, the limit of one key. Further events are refused.',
  SVC_PROTECT_NO_KEY: 'A field must be encrypted, but no encryption key is configured.',
  SVC_PROTECT_NOT_PROTECTED: 'A marked value could not be masked, encrypted or hashed. Its event is refused.',
  SVC_PROTECT_NO_SALT: 'A field must be hashed, but no salt is configured.',
  SVC_PROTECT_READ_ERROR:
    'A getter, toJSON or proxy of a payload threw while svc read it. Its event is refused.',
  SVC_PROTECT_RULE: 'A mark or rule for personal data has an invalid value or place.',
  SVC_PROTECT_TOJSON_HIDES_FIELDS:
    'toJSON of a class with marked fields returns a text in which the marked values cannot be found; the event is refused.',
  SVC_PROTECT_TOO_LARGE:
    'A payload holds too many values or bytes, or a BigInt with too many digits. Its event is refused.',
  SVC_PROTECT_UNSUPPORTED_TYPE:
    'A payload holds an object without a JSON form (Error, Promise, RegExp, …). Its event is refused.',
  SVC_SERIALIZE_CLOUDEVENT:
    'An event cannot be a CloudEvent, because of its type or a header of the application. It is refused.',
  SVC_SERIALIZE_NOT_AVRO:
    'A record is not in the wire format of Avro (magic byte, schema id, fields), or has another schema.',
  SVC_SERIALIZE_REGISTRY_AWAY:
    'The schema registry cannot be reached or used now. The message gives the reason. Events wait, or go to the backup.',
  SVC_SERIALIZE_SCHEMA:
    'A file of svc.serde.schemas holds no Avro schema. Events of its type are refused. The message names the file.',
  SVC_SERIALIZE_SCHEMA_MISFIT:
    'A payload does not fit the Avro schema of its event type. Its event is refused. The message gives the path.',
  SVC_SERIALIZE_SCHEMA_REFUSED:
    'The schema registry rejects a schema, or does not know it. Its events go to the dead letter topic.',
  SVC_PUBLISH_BACKUP_FAILED: 'A backup strategy did not answer in time. svc tries the next one.',
  SVC_PUBLISH_BACKUP_STRATEGY: 'The argument of registerBackupStrategy() is not a backup strategy.',
  SVC_PUBLISH_BROKER:
    'The argument of registerBroker() is invalid or has no unique name, or svc.broker.client names no registered broker.',
  SVC_PUBLISH_HEADERS: 'The headers of publish() are invalid. Nothing is sent.',
  SVC_PUBLISH_NOT_A_RECORD:
    'A record of an event, or a row of the outbox, is invalid for Kafka. Only that event fails.',
  SVC_PUBLISH_NOT_RUNNING: 'publish() was called in a process without svc (--import svc/register).',
  SVC_PUBLISH_LOST: 'An event could not be published, and no other tier has stored it.',
  SVC_PUBLISH_OPTIONS: 'An option of publish() or flush() is invalid or unknown. Nothing is sent.',
  SVC_PUBLISH_TIMEOUT:
    'An event had no outcome within the time that its caller waits. It is still in flight and may arrive.',
  SVC_TESTING_MATCH: 'An assertion of svc/testing got a name that matches no event type.',
} as const satisfies Record<string, string>;

export type ErrorCode = keyof typeof errorCatalogue;

interface SvcErrorOptions {
  /** The error's name, if the specification names an exception (`TimeoutException`, …). Default: `SvcError`. */
  name?: string;
}

/** The errors of this process, of any copy of the package. By identity, so that no lookalike passes. */
const raised = shared('errors', () => new WeakSet<object>());

/** An error of svc. The message never holds a payload value. It has no `cause`, which loggers would print in full. */
export class SvcError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options: SvcErrorOptions = {}) {
    super(message);
    this.name = options.name ?? 'SvcError';
    this.code = code;
    raised.add(this);
  }

  /** An application's `import` and the `require` of the running svc have separate copies of this class. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore-start lint/complexity/noThisInStatic: a subclass inherits this, and asks for its own
    if (this !== SvcError) return Function.prototype[Symbol.hasInstance].call(this, value);
    // biome-ignore-end lint/complexity/noThisInStatic: as above
    return typeof value === 'object' && value !== null && raised.has(value);
  }
}
