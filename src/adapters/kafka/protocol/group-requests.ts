import type { Address } from '../transport.ts';
import { AnswerReader, blob, int32, list, text } from './bytes.ts';
import { checkCode, type KafkaRequest, ProtocolError, readRefusal } from './kafka-request.ts';

/** One member, as the leader of a group sees it. */
export interface GroupMember {
  readonly memberId: string;
  readonly metadata: Buffer;
}

export interface GroupAssignment {
  readonly memberId: string;
  readonly assignment: Buffer;
}

/** Of one member, in one generation of its group. */
export interface Membership {
  readonly memberId: string;
  readonly generation: number;
}

export interface Joined extends Membership {
  /** Everybody, where this member leads the group; otherwise empty. */
  readonly members: readonly GroupMember[];
}

export interface GroupSettings {
  readonly group: string;
  readonly protocolType: string;
  readonly protocolName: string;
  readonly sessionTimeoutMs: number;
  readonly rebalanceTimeoutMs: number;
}

/** From this version of each on members may have a name of their own, which svc gives none. */
const withInstance = { join: 5, sync: 3, heartbeat: 3 } as const;
const noInstance = text(null);

/** Kafka wants a new member to come again, with the id that it is given. */
export class MemberIdRequired extends ProtocolError {
  readonly memberId: string;

  constructor(memberId: string) {
    super(memberIdRequired);
    this.memberId = memberId;
  }
}

const memberIdRequired = 79;

export function coordinatorRequest(group: string): KafkaRequest<Address> {
  return {
    ...{ key: 10, name: 'FindCoordinator', oldest: 1, newest: 2 },
    throttle: { at: 'start', from: 2 },
    write: () => [text(group), Buffer.from([0])],
    read(bytes) {
      const answer = new AnswerReader(bytes);
      answer.skip(4);
      const code = answer.int16();
      answer.text();
      checkCode(code);
      answer.skip(4);
      return { host: answer.text() ?? '', port: answer.int32() };
    },
  };
}

export function joinRequest(
  settings: GroupSettings,
  memberId: string,
  metadata: Buffer,
): KafkaRequest<Joined> {
  return {
    ...{ key: 11, name: 'JoinGroup', oldest: 2, newest: 5 },
    throttle: { at: 'start', from: 3 },
    write: (version) => [
      ...[text(settings.group), int32(settings.sessionTimeoutMs), int32(settings.rebalanceTimeoutMs)],
      ...[text(memberId), ...(version >= withInstance.join ? [noInstance] : [])],
      text(settings.protocolType),
      list([metadata], (each) => Buffer.concat([text(settings.protocolName), blob(each)])),
    ],
    read(bytes, version) {
      const answer = new AnswerReader(bytes);
      answer.skip(4);
      const code = answer.int16();
      const generation = answer.int32();
      answer.text();
      answer.text();
      const given = answer.text() ?? '';
      if (code === memberIdRequired) throw new MemberIdRequired(given);
      checkCode(code);
      const members = answer.list((): GroupMember => {
        const id = answer.text() ?? '';
        if (version >= withInstance.join) answer.text();
        return { memberId: id, metadata: answer.blob() };
      });
      return { memberId: given, generation, members };
    },
  };
}

const head = (group: string, { generation, memberId }: Membership, hasInstance: boolean): Buffer[] => [
  ...[text(group), int32(generation), text(memberId)],
  ...(hasInstance ? [noInstance] : []),
];

/** Its answer is what the leader gave to this member. */
export function syncRequest(
  group: string,
  membership: Membership,
  assignments: readonly GroupAssignment[],
): KafkaRequest<Buffer> {
  return {
    ...{ key: 14, name: 'SyncGroup', oldest: 1, newest: 3 },
    throttle: { at: 'start', from: 2 },
    write: (version) => [
      ...head(group, membership, version >= withInstance.sync),
      list(assignments, (each) => Buffer.concat([text(each.memberId), blob(each.assignment)])),
    ],
    read(bytes) {
      readRefusal(bytes);
      const answer = new AnswerReader(bytes);
      answer.skip(6);
      return answer.blob();
    },
  };
}

export function heartbeatRequest(group: string, membership: Membership): KafkaRequest<void> {
  return {
    ...{ key: 12, name: 'Heartbeat', oldest: 1, newest: 3 },
    throttle: { at: 'start', from: 2 },
    write: (version) => head(group, membership, version >= withInstance.heartbeat),
    read: readRefusal,
  };
}

export function leaveRequest(group: string, memberId: string): KafkaRequest<void> {
  return {
    ...{ key: 13, name: 'LeaveGroup', oldest: 1, newest: 2 },
    throttle: { at: 'start', from: 2 },
    write: () => [text(group), text(memberId)],
    read: readRefusal,
  };
}
