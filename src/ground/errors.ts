// ground/: what every other folder may stand on, and what two of them must agree on.

import { shared } from './lifecycle.ts';

/**
 * Every error that svc raises, by its stable code. Callers match `error.code`; the texts may improve.
 * The middle word of a code is the folder that raises it, or its file in `start/`. `docs/errors.md` lists the same codes (tested).
 */
export const errorCatalogue = {
  SVC_ADAPTERS_BACKUP_BUSY: 'Another process is restoring or draining the same backup or dead letter topic.',
  SVC_ADAPTERS_BACKUP_DIRECTORY:
    'The folder of the local backup cannot be made, or others could read it or put something into it.',
  SVC_ADAPTERS_BACKUP_FAILED: 'A backup could not be written or read; the message says where and why.',
  SVC_ADAPTERS_BACKUP_FULL:
    'The local backup holds svc.broker.backup.max-bytes already, waits for a disk that is too slow, or an event is too large for it.',
  SVC_ADAPTERS_BATCH_TOO_LARGE:
    'A compressed batch of records expands to more than 64 MiB, or than 16 times its own size, or has more than 100,000 records.',
  SVC_ADAPTERS_MARKS_FULL:
    'A recovery with filters leaves more gaps in a dead letter topic than Kafka can remember.',
  SVC_ADAPTERS_NOT_REACHABLE: 'The broker cannot be reached or used; the message says why and what to check.',
  SVC_ADAPTERS_OPTIONS: 'createAvroReader() was given an option that none can have.',
  SVC_ADAPTERS_PACKAGE_MISSING:
    'A package that the configuration asks for is not installed; the message names it.',
  SVC_ADAPTERS_TOKEN:
    'No token to sign in to Kafka with could be got; the message says why and what to check.',
  SVC_ADAPTERS_TLS_FILE: 'A certificate or key file named in svc.broker.tls cannot be read or used.',
  SVC_CAPTURE_EXPRESSION:
    'A payload or key expression, or the function in its place, failed for one call; the event was not made.',
  SVC_CAPTURE_EXPRESSION_ASYNC: 'A payload or key expression gave a promise; events are built synchronously.',
  SVC_CAPTURE_EXPRESSION_NAME: 'An expression uses a name that the captured function does not have.',
  SVC_CAPTURE_EXPRESSION_SYNTAX:
    'An expression cannot be parsed, or uses what a read-only expression may not.',
  SVC_CAPTURE_HEADERS:
    'A target declares a header that no record can have, or a call gave a header a value that is no text.',
  SVC_CAPTURE_PAYLOAD_INDEX:
    'payloadIndex is not -1 or a position, or the call had no argument at that position.',
  SVC_CONSUME_HANDLER_HANGS:
    'A handler of consumeOnce() takes longer than it may; its partition waits for it.',
  SVC_CONSUME_NOT_AN_EVENT: 'An inbox was given something without the id of an event.',
  SVC_CONSUME_OPTIONS: 'createInbox() or consumeOnce() was given an option that none can have.',
  SVC_CONSUME_TABLE_MISSING: 'The table of an inbox is not there, or not as svc makes it.',
  SVC_CONSUME_UNKNOWN_TYPE: 'consumeOnce() has no handler for events of a type; they go to the dead letters.',
  SVC_CONSUME_UNREADABLE:
    'The value of a record is no event that this svc can read; it goes to the dead letters of the consumer.',
  SVC_CONSUME_UPCAST:
    'A function of upcast, which makes older payloads into newer ones, failed; the event goes to the dead letters of the consumer.',
  SVC_CONSUMER_KEYS_FILE: 'A file with decryption keys cannot be read or is not in the documented form.',
  SVC_CONSUMER_NOT_AN_ENVELOPE: 'What was given to decrypt is not an envelope of svc.',
  SVC_CONSUMER_FIELD_NOT_NAMED:
    'A ciphertext of format v0 stands in a field that nobody has said may be decrypted; it opens wherever it is copied to.',
  SVC_CONSUMER_OPTIONS:
    'createDecryptionKeys(), decryptFields() or one beside them was given an option that none can have.',
  SVC_CONTEXT_BAD_ACTOR_SOURCE:
    'A source of userId or sessionId is not header:…, baggage:…, request:… or a function.',
  SVC_CONTEXT_BAD_HEADER_NAME:
    'The configuration names a request or response header that no header can be called.',
  SVC_CONTEXT_BAD_TRUSTED_PROXY: 'An entry of the trusted proxies is not an address, a CIDR range or "unix".',
  SVC_CONTEXT_VALUES: 'setContext() or runWithContext() was given a value that none can have.',
  SVC_ENVELOPE_CLOCK_MOVED_BACKWARDS: 'The clock stepped back further than event ids can ride out.',
  SVC_ENVELOPE_CLOCK_OUT_OF_RANGE:
    'The clock is outside the 69 years from 2024 on that event ids can express.',
  SVC_ENVELOPE_WORKER_ID: 'The configured worker id is not an integer from 0 to 1023.',
  SVC_GROUND_BUCKET_CLIENT: 'What was given to registerS3Client is no client of @aws-sdk/client-s3.',
  SVC_GROUND_PROCESS_FILE:
    'The folder in which processes of a user name their management servers is not safe, or cannot be used.',
  SVC_MANAGE_LISTEN_FAILED:
    'The management server cannot listen on its port; the application runs without it.',
  SVC_MANAGE_TOKEN_REQUIRED:
    'The management server does not start on an address other than loopback without a token of 16 characters or more.',
  SVC_CAPTURE_RULE:
    'A target declared in code has a value that no target can have; its function is not captured.',
  SVC_CAPTURE_RESULT_UNKNOWN:
    'A function commits its own transaction before it returns, but its event for the outbox needs what it returns.',
  SVC_OUTBOX_INSERT: 'The database did not take the row of an event; its transaction is rolled back.',
  SVC_OUTBOX_COMMITTED:
    'The transaction of a call was committed before the call had ended, without its event.',
  SVC_OUTBOX_NO_TRANSACTION: 'An event for the outbox was made outside any transaction.',
  SVC_OUTBOX_SEVERAL_TRANSACTIONS:
    'A call took part in more than one open transaction; nothing says which one its event belongs to.',
  SVC_OBSERVE_LOGGER: 'What was given to setLogger is no logger.',
  SVC_OUTBOX_AGGREGATE_ID:
    'A call of a target with an outbox has no aggregate id: it is empty, missing, or no text; the call fails.',
  SVC_OUTBOX_CONTRADICTION:
    'The table of the outbox is set up for other settings than those of this process, and events would be lost; calls fail.',
  SVC_OUTBOX_DATA_SOURCE:
    'outbox.runInTransaction() was given something that it cannot open a transaction on.',
  SVC_OUTBOX_DRIVER:
    'A driver that svc does not follow: given to outbox.watch(), or a second SQLite in the process.',
  SVC_OUTBOX_EVENT: 'outbox.save() was given an event that lacks a field, or has one that none can have.',
  SVC_OUTBOX_EXECUTOR: 'The outbox was given something that it cannot write through.',
  SVC_OUTBOX_STRAY_ROWS:
    'The table of the outbox holds rows that somebody else has written and no relay finds.',
  SVC_OUTBOX_TOO_LONG:
    'An event has a text that is longer than the table of the outbox holds, or is larger than a packet of the database may be; it is refused.',
  SVC_OUTBOX_NOT_RUNNING: 'outbox.save() was called where svc does not run, or has no outbox.',
  SVC_OUTBOX_NOT_ALLOWED:
    'The database does not allow svc the permissions of the outbox: to create tables, to insert, or to write at all.',
  SVC_OUTBOX_OTHER_DATABASE:
    'A connection of the application has another table of the outbox than svc, whose relay would never send its events; the call fails.',
  SVC_OUTBOX_PACKAGE_MISSING:
    'The driver of the database of the outbox is not installed; the message names the package.',
  SVC_OUTBOX_READ_ONLY:
    'The database of the outbox takes no writes, as a standby, or for the time of a failover.',
  SVC_OUTBOX_REPLAY_BUSY: 'A replay of the outbox is running already.',
  SVC_OUTBOX_REPLAY_OPTIONS:
    'A replay was asked for with a time or limit that none can have; nothing is sent.',
  SVC_OUTBOX_ROLLED_BACK:
    'The database has rolled back a transaction of outbox.runInTransaction() in place of its COMMIT.',
  SVC_OUTBOX_SCHEMA_VERSION:
    'The tables of the outbox are of an older or a newer version of svc, or another table has their name.',
  SVC_OUTBOX_SIGN_IN: 'The database of the outbox refuses user, password or the name of the database.',
  SVC_OUTBOX_STATEMENT: 'The database refused a statement of the outbox; the message gives its code.',
  SVC_OUTBOX_TABLE_MISSING: 'The tables of the outbox are not there, or not all of them.',
  SVC_OUTBOX_UNREACHABLE: 'The database of the outbox cannot be reached, or has not answered in time.',
  SVC_OUTBOX_URL: 'The URL of the database of the outbox, or the name of its table, cannot be used.',
  SVC_PIPELINE_NO_OUTBOX:
    'A target with an outbox was called in a process that has none; its event is not sent directly instead, and the call fails.',
  SVC_PIPELINE_UNEXPECTED: 'Something outside svc threw while an event was prepared; the event is refused.',
  SVC_PRELOAD_INSTRUMENTATION:
    'SvcInstrumentation does nothing, because @opentelemetry/instrumentation is missing or too old.',
  SVC_PRELOAD_SDK:
    'svc.telemetry.sdk is node, and the OpenTelemetry SDK cannot be started; the message says why, and names the package to install.',
  SVC_PROTECT_BUDGET:
    'A payload has more to protect, or takes longer to read, than one event may; its event is refused.',
  SVC_PROTECT_CIPHERTEXT: 'A ciphertext is damaged: not Base64, cut off, or in no known layout.',
  SVC_PROTECT_DECRYPT_FAILED:
    'A ciphertext or data key did not pass its integrity check: wrong key, damaged, or moved from another field.',
  SVC_PROTECT_DEPTH_OR_CYCLE:
    'A payload is nested deeper than 64 levels or refers to itself; its event is refused.',
  SVC_PROTECT_HEADER_IN_CLEAR:
    'A header is or holds the value of a marked field, or its expression reads one; its event is refused.',
  SVC_PROTECT_KEY_ID: 'A key id has characters other than letters, digits, underscore and hyphen.',
  SVC_PROTECT_KEY_IN_CLEAR:
    'A record key is or holds the value of a marked field, or its expression reads one; its event is refused.',
  SVC_PROTECT_KEY_LENGTH: 'An encryption key is neither 32 bytes in Base64 nor 32 characters.',
  SVC_PROTECT_KEY_LIST:
    'The list of encryption keys has two primaries or one id twice, or conflicts with a key provider.',
  SVC_PROTECT_KEY_PROVIDER:
    'What was given to registerKeyProvider is no key provider or has no name of its own, or nothing was registered by the name in svc.pii.kms.type.',
  SVC_PROTECT_KEY_REFUSED:
    'The key service refuses a key until somebody acts: access denied, disabled, unknown to it.',
  SVC_PROTECT_KEY_UNAVAILABLE:
    'No usable encryption key at the moment; events with fields to encrypt are refused.',
  SVC_PROTECT_KEY_UNKNOWN: 'A rule or a ciphertext names a key that is not configured, or not for this use.',
  SVC_PROTECT_KEY_USED_UP:
    'An encryption key has encrypted 2^32 values in one process, as many as one key may; further events are refused.',
  SVC_PROTECT_NO_KEY: 'A field is to be encrypted, and no encryption key is configured.',
  SVC_PROTECT_NOT_PROTECTED: 'A marked value could not be masked, encrypted or hashed; its event is refused.',
  SVC_PROTECT_NO_SALT: 'A field is to be hashed, and no salt is configured.',
  SVC_PROTECT_READ_ERROR:
    'A getter, toJSON or proxy of a payload threw while it was read; its event is refused.',
  SVC_PROTECT_RULE:
    'A mark or rule for personal data has a value that none can have, or stands where none can.',
  SVC_PROTECT_TOJSON_HIDES_FIELDS:
    'toJSON of a class with marked fields returns a text in which the marked values cannot be found; the event is refused.',
  SVC_PROTECT_TOO_LARGE:
    'A payload holds too many values or bytes, or a BigInt of too many digits; its event is refused.',
  SVC_PROTECT_UNSUPPORTED_TYPE:
    'A payload holds an object without a JSON form (Error, Promise, RegExp, …); its event is refused.',
  SVC_SERIALIZE_CLOUDEVENT:
    'An event cannot be a CloudEvent, by its type or by a header of the application; it is refused.',
  SVC_SERIALIZE_NOT_AVRO:
    'A record is not in the wire format of Avro (magic byte, id of a schema, fields), or its schema is another.',
  SVC_SERIALIZE_REGISTRY_AWAY:
    'The schema registry cannot be reached or used for now; the message says why. Events wait, or go to the backup.',
  SVC_SERIALIZE_SCHEMA:
    'A file of svc.serde.schemas holds no Avro schema; events of its type are refused, and the message names the file.',
  SVC_SERIALIZE_SCHEMA_MISFIT:
    'A payload does not fit the Avro schema of its event type; its event is refused, and the message gives the path.',
  SVC_SERIALIZE_SCHEMA_REFUSED:
    'The schema registry does not take a schema, or does not know it; its events go to the dead letter topic.',
  SVC_PUBLISH_BACKUP_FAILED: 'A backup strategy did not answer in time; the next one is tried.',
  SVC_PUBLISH_BACKUP_STRATEGY: 'What was given to registerBackupStrategy is no backup strategy.',
  SVC_PUBLISH_BROKER:
    'What was given to registerBroker is no broker or has no name of its own, or nothing was registered by the name in svc.broker.client.',
  SVC_PUBLISH_HEADERS: 'publish() was given headers that no record can have; nothing is sent.',
  SVC_PUBLISH_NOT_A_RECORD:
    'A record of an event, or a row of the outbox, is none that Kafka could have; it alone fails.',
  SVC_PUBLISH_NOT_RUNNING:
    'publish() was called in a process that svc was not started in (--import svc/register).',
  SVC_PUBLISH_LOST: 'An event could not be published, and no other tier has stored it.',
  SVC_PUBLISH_OPTIONS:
    'An option of publish() or flush() has a value that none can have, or is not known; nothing is sent.',
  SVC_PUBLISH_TIMEOUT:
    'An event had no outcome within the time that its caller waits; it is on its way still, and may arrive.',
  SVC_TESTING_MATCH: 'An assertion of svc/testing was given a name by which no event can be found.',
} as const satisfies Record<string, string>;

export type ErrorCode = keyof typeof errorCatalogue;

export interface SvcErrorOptions {
  /** Where the specification names an exception (`TimeoutException`, …), that is the error's name. Default: `SvcError`. */
  name?: string;
}

/** Those of this process, of whichever copy of the package. By identity: nothing that only looks like one gets in. */
const raised = shared('errors', () => new WeakSet<object>());

/** An error of svc. Its message never holds a value of a payload, and it carries no `cause`, which loggers print in full. */
export class SvcError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options: SvcErrorOptions = {}) {
    super(message);
    this.name = options.name ?? 'SvcError';
    this.code = code;
    raised.add(this);
  }

  /** An application's `import` and the `require` of the running svc are two halves of the package, with a class each. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    // biome-ignore-start lint/complexity/noThisInStatic: a subclass inherits this, and asks for its own
    if (this !== SvcError) return Function.prototype[Symbol.hasInstance].call(this, value);
    // biome-ignore-end lint/complexity/noThisInStatic: as above
    return typeof value === 'object' && value !== null && raised.has(value);
  }
}
