// requests and answers of Kafka's protocol, as svc writes and reads them, for all clients.

/** One request, in the versions that svc knows. Most predate Kafka's "flexible" versions, which have compact lists and tags. */
export interface KafkaRequest<T> {
  readonly key: number;
  readonly name: string;
  readonly oldest: number;
  readonly newest: number;
  /** The first flexible version: the heads of request and answer end with tags. Default: svc knows no flexible version. */
  readonly flexible?: number | undefined;
  /** In pieces, so that a batch is not copied. */
  write(version: number): readonly Buffer[];
  /** The position of the throttle time in the answer, and the first version in which the client has to wait by itself. */
  readonly throttle?: { readonly at: 'start' | 'end'; readonly from: number } | undefined;
  /** Throws a {@link ProtocolError}. Left out: the broker does not answer. */
  readonly read?: ((answer: Buffer, version: number) => T) | undefined;
}

/** A refusal by Kafka, with Kafka's name of the error. */
export class ProtocolError extends Error {
  /** Such as `UNKNOWN_TOPIC_OR_PARTITION`. */
  readonly type: string;

  constructor(code: number) {
    super('refused by Kafka');
    this.type = errorName(code);
  }
}

export function checkCode(code: number): void {
  if (code !== 0) throw new ProtocolError(code);
}

function int16(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(2);
  bytes.writeInt16BE(value);
  return bytes;
}

export function int32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeInt32BE(value);
  return bytes;
}

export function text(value: string | null): Buffer {
  if (value === null) return int16(-1);
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([int16(bytes.length), bytes]);
}

/** A number of flexible versions: seven bits in a byte, the lowest first. */
function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest >>>= 7) bytes.push((rest & 127) | 128);
  return Buffer.from([...bytes, rest]);
}

function compactText(value: string): Buffer {
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([varint(bytes.length + 1), bytes]);
}

const noTags = Buffer.from([0]);

export function list<T>(items: readonly T[], write: (item: T) => Buffer): Buffer {
  return Buffer.concat([int32(items.length), ...items.map(write)]);
}

/** Reads an answer from beginning to end. Throws a RangeError if it is shorter than it says. */
export class AnswerReader {
  private readonly bytes: Buffer;
  private at = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  skip(length: number): number {
    this.at += length;
    return this.at - length;
  }

  int16(): number {
    return this.bytes.readInt16BE(this.skip(2));
  }

  int32(): number {
    return this.bytes.readInt32BE(this.skip(4));
  }

  int64(): bigint {
    return this.bytes.readBigInt64BE(this.skip(8));
  }

  text(): string | null {
    const length = this.int16();
    return length < 0 ? null : this.bytes.toString('utf8', this.skip(length), this.at);
  }

  blob(): Buffer {
    const start = this.skip(this.int32());
    return this.bytes.subarray(start, this.at);
  }

  list<T>(read: () => T): T[] {
    return Array.from({ length: Math.max(0, this.int32()) }, read);
  }

  varint(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.bytes.readUInt8(this.skip(1));
      value += (byte & 127) * 2 ** shift;
      if (byte < 128) return value;
    }
    throw new RangeError('a number of more than five bytes');
  }

  compactText(): string | null {
    const length = this.varint() - 1;
    return length < 0 ? null : this.bytes.toString('utf8', this.skip(length), this.at);
  }

  compactList<T>(read: () => T): T[] {
    const length = this.varint() - 1;
    // Each item has at least one byte.
    if (length > this.bytes.length - this.at) throw new RangeError('a list that is longer than its response');
    return Array.from({ length: Math.max(0, length) }, read);
  }

  /** A topic id of zeros means no id. */
  uuid(): string | undefined {
    const hex = this.bytes.toString('hex', this.skip(16), this.at);
    return /^0*$/.test(hex) ? undefined : hex;
  }

  tags(): void {
    for (let left = this.varint(); left > 0; left--) {
      this.varint();
      this.skip(this.varint());
    }
  }

  rest(): Buffer {
    return this.bytes.subarray(this.at);
  }
}

export interface Node {
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
}

/** Of one topic. `errorCode` concerns this topic only. */
export interface TopicMetadata {
  readonly errorCode: number;
  readonly name: string | null;
  /** A topic that is created again has another id (KIP-516). `undefined` before version 10. */
  readonly id?: string | undefined;
  /** `leaderId`: negative if there is no leader now. */
  readonly partitions: readonly { readonly partition: number; readonly leaderId: number }[];
  /** One bit for each right. `undefined` before version 8. */
  readonly topicAuthorizedOperations?: number | undefined;
}

export interface ClusterMetadata {
  readonly clusterId: string | null;
  readonly brokers: readonly Node[];
  readonly topics: readonly TopicMetadata[];
}

/** From this version on, a request may leave names out. svc gives them. */
const newestMetadata = 12;
/** From this version on, the answer leaves out the rights on the cluster. */
const withoutClusterRights = 11;
const withTopicIds = 10;
const flexibleMetadata = 9;
/** From this version on, the answer holds the rights of the user. */
const withRights = 8;
const withLeaderEpoch = 7;
const withOfflineReplicas = 5;

/** @param topics empty: only the cluster itself @param mayCreate whether Kafka may create a missing topic */
export function metadataRequest(
  topics: readonly string[],
  mayCreate: boolean,
): KafkaRequest<ClusterMetadata> {
  return {
    // The oldest version that can forbid the creation of a topic.
    ...{ key: 3, name: 'Metadata', oldest: 4, newest: newestMetadata, flexible: flexibleMetadata },
    throttle: { at: 'start', from: 6 },
    write(version) {
      const rights = version < withRights ? [] : version < withoutClusterRights ? [false, true] : [true];
      const flags = Buffer.from([mayCreate, ...rights].map(Number));
      if (version < flexibleMetadata) return [list(topics, text), flags];
      const id = version < withTopicIds ? Buffer.alloc(0) : Buffer.alloc(16);
      const named = topics.flatMap((name) => [id, compactText(name), noTags]);
      return [noTags, varint(topics.length + 1), ...named, flags, noTags];
    },
    read: readMetadata,
  };
}

function readMetadata(bytes: Buffer, version: number): ClusterMetadata {
  const answer = new AnswerReader(bytes);
  const isFlexible = version >= flexibleMetadata;
  const text = (): string | null => (isFlexible ? answer.compactText() : answer.text());
  const numbers = (): unknown => (isFlexible ? answer.compactList(number) : answer.list(number));
  const number = (): number => answer.int32();
  answer.skip(4); // Throttle time.
  const brokers = structs(() => {
    const node = { nodeId: answer.int32(), host: text() ?? '', port: answer.int32() };
    text(); // Rack.
    return node;
  });
  const clusterId = text();
  answer.skip(4); // Controller.
  const topics = structs(() => {
    const errorCode = answer.int16();
    const name = text();
    const id = version >= withTopicIds ? answer.uuid() : undefined;
    answer.skip(1); // Whether it is internal.
    const partitions = structs(readPartition);
    const topicAuthorizedOperations = version >= withRights ? answer.int32() : undefined;
    return { errorCode, name, id, partitions, topicAuthorizedOperations };
  });
  return { clusterId, brokers, topics };

  function structs<T>(read: () => T): T[] {
    if (!isFlexible) return answer.list(read);
    return answer.compactList(() => {
      const found = read();
      answer.tags();
      return found;
    });
  }

  function readPartition(): TopicMetadata['partitions'][number] {
    answer.skip(2); // Error, such as no leader.
    const [partition, leaderId] = [answer.int32(), answer.int32()];
    if (version >= withLeaderEpoch) answer.skip(4);
    // All replicas, those in sync, those offline.
    for (let lists = version >= withOfflineReplicas ? 3 : 2; lists > 0; lists--) numbers();
    return { partition, leaderId };
  }
}

/** By their numbers, from 0 on: https://kafka.apache.org/protocol#protocol_error_codes */
const names = `
  NONE OFFSET_OUT_OF_RANGE CORRUPT_MESSAGE UNKNOWN_TOPIC_OR_PARTITION INVALID_FETCH_SIZE LEADER_NOT_AVAILABLE
  NOT_LEADER_OR_FOLLOWER REQUEST_TIMED_OUT BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE MESSAGE_TOO_LARGE
  STALE_CONTROLLER_EPOCH OFFSET_METADATA_TOO_LARGE NETWORK_EXCEPTION COORDINATOR_LOAD_IN_PROGRESS
  COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR INVALID_TOPIC_EXCEPTION RECORD_LIST_TOO_LARGE NOT_ENOUGH_REPLICAS
  NOT_ENOUGH_REPLICAS_AFTER_APPEND INVALID_REQUIRED_ACKS ILLEGAL_GENERATION INCONSISTENT_GROUP_PROTOCOL
  INVALID_GROUP_ID UNKNOWN_MEMBER_ID INVALID_SESSION_TIMEOUT REBALANCE_IN_PROGRESS INVALID_COMMIT_OFFSET_SIZE
  TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED INVALID_TIMESTAMP
  UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE UNSUPPORTED_VERSION TOPIC_ALREADY_EXISTS INVALID_PARTITIONS
  INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG NOT_CONTROLLER INVALID_REQUEST
  UNSUPPORTED_FOR_MESSAGE_FORMAT POLICY_VIOLATION OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER
  INVALID_PRODUCER_EPOCH INVALID_TXN_STATE INVALID_PRODUCER_ID_MAPPING INVALID_TRANSACTION_TIMEOUT
  CONCURRENT_TRANSACTIONS TRANSACTION_COORDINATOR_FENCED TRANSACTIONAL_ID_AUTHORIZATION_FAILED
  SECURITY_DISABLED OPERATION_NOT_ATTEMPTED KAFKA_STORAGE_ERROR LOG_DIR_NOT_FOUND SASL_AUTHENTICATION_FAILED
  UNKNOWN_PRODUCER_ID REASSIGNMENT_IN_PROGRESS DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_NOT_FOUND
  DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_AUTHORIZATION_FAILED
  DELEGATION_TOKEN_EXPIRED INVALID_PRINCIPAL_TYPE NON_EMPTY_GROUP GROUP_ID_NOT_FOUND
  FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH LISTENER_NOT_FOUND TOPIC_DELETION_DISABLED
  FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH UNSUPPORTED_COMPRESSION_TYPE STALE_BROKER_EPOCH
  OFFSET_NOT_AVAILABLE MEMBER_ID_REQUIRED PREFERRED_LEADER_NOT_AVAILABLE GROUP_MAX_SIZE_REACHED
  FENCED_INSTANCE_ID ELIGIBLE_LEADERS_NOT_AVAILABLE ELECTION_NOT_NEEDED NO_REASSIGNMENT_IN_PROGRESS
  GROUP_SUBSCRIBED_TO_TOPIC INVALID_RECORD UNSTABLE_OFFSET_COMMIT THROTTLING_QUOTA_EXCEEDED PRODUCER_FENCED
  RESOURCE_NOT_FOUND DUPLICATE_RESOURCE UNACCEPTABLE_CREDENTIAL INCONSISTENT_VOTER_SET INVALID_UPDATE_VERSION
  FEATURE_UPDATE_FAILED PRINCIPAL_DESERIALIZATION_FAILURE SNAPSHOT_NOT_FOUND POSITION_OUT_OF_RANGE
  UNKNOWN_TOPIC_ID DUPLICATE_BROKER_REGISTRATION BROKER_ID_NOT_REGISTERED INCONSISTENT_TOPIC_ID
  INCONSISTENT_CLUSTER_ID TRANSACTIONAL_ID_NOT_FOUND FETCH_SESSION_TOPIC_ID_ERROR INELIGIBLE_REPLICA
  NEW_LEADER_ELECTED OFFSET_MOVED_TO_TIERED_STORAGE FENCED_MEMBER_EPOCH UNRELEASED_INSTANCE_ID
  UNSUPPORTED_ASSIGNOR STALE_MEMBER_EPOCH MISMATCHED_ENDPOINT_TYPE UNSUPPORTED_ENDPOINT_TYPE
  UNKNOWN_CONTROLLER_ID UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE INVALID_REGISTRATION TRANSACTION_ABORTABLE
  INVALID_RECORD_STATE SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH FENCED_STATE_EPOCH
  INVALID_VOTER_KEY DUPLICATE_VOTER VOTER_NOT_FOUND
`
  .split(/\s+/)
  .filter(Boolean);

/** The number itself if it is newer than the list. */
function errorName(code: number): string {
  return code === -1 ? 'UNKNOWN_SERVER_ERROR' : (names[code] ?? `ERROR_${code}`);
}
