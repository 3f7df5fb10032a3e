import type { GroupAssignment, GroupMember } from '../protocol/group-requests.ts';

/** What a member of the group of workers tells its leader when it joins. */
export interface WorkerIdClaim {
  readonly workerId: number;
  /** Of the group, in which the leader gave it that worker id last. */
  readonly generation: number;
  /** Whether its lease still runs; otherwise it would like to have the same one again. */
  readonly isHeld: boolean;
}

const claimBytes = 7;
const noneFree = Buffer.alloc(0);

export function encodeClaim(claim: WorkerIdClaim | undefined): Buffer {
  if (claim === undefined) return Buffer.alloc(0);
  const bytes = Buffer.alloc(claimBytes);
  bytes.writeUInt16BE(claim.workerId, 0);
  bytes.writeInt32BE(claim.generation, 2);
  bytes.writeUInt8(claim.isHeld ? 1 : 0, 6);
  return bytes;
}

/** `undefined` where this member has none, or none that could be. */
function decodeClaim(bytes: Buffer, maxWorkerId: number): WorkerIdClaim | undefined {
  if (bytes.length < claimBytes) return undefined;
  const workerId = bytes.readUInt16BE(0);
  if (workerId > maxWorkerId) return undefined;
  return { workerId, generation: bytes.readInt32BE(2), isHeld: bytes.readUInt8(6) === 1 };
}

/** What the leader gave: a worker id, what cannot be one, or neither, as none was free. */
export interface Given {
  readonly workerId?: number;
  /** For an operator. */
  readonly noWorkerId?: string;
}

export function decodeAssignment(bytes: Buffer, maxWorkerId: number): Given {
  if (bytes.length === 0) return {};
  if (bytes.length !== 2)
    return { noWorkerId: bytes.length === 1 ? 'a single byte' : `${bytes.length} bytes` };
  const workerId = bytes.readUInt16BE(0);
  return workerId > maxWorkerId ? { noWorkerId: String(workerId) } : { workerId };
}

/**
 * A worker id for each member, the same whoever leads. Holders keep theirs; of two that claim one, whoever was given it in the
 * later generation: the other was away meanwhile. Then those who had one before, then the lowest free ones.
 */
export function assignWorkerIds(members: readonly GroupMember[], maxWorkerId: number): GroupAssignment[] {
  const claims = members
    .map(({ memberId, metadata }) => ({ memberId, claim: decodeClaim(metadata, maxWorkerId) }))
    .sort((a, b) => byPrecedence(a.claim, b.claim) || (a.memberId < b.memberId ? -1 : 1));
  const taken = new Map<number, string>();
  for (const { memberId, claim } of claims)
    if (claim !== undefined && !taken.has(claim.workerId)) taken.set(claim.workerId, memberId);
  const given = new Map([...taken].map(([workerId, memberId]) => [memberId, workerId]));
  let next = 0;
  return claims.map(({ memberId }) => {
    let workerId = given.get(memberId);
    if (workerId === undefined) {
      while (taken.has(next)) next++;
      workerId = next++;
    }
    return { memberId, assignment: workerId > maxWorkerId ? noneFree : encodeAssignment(workerId) };
  });
}

function byPrecedence(a: WorkerIdClaim | undefined, b: WorkerIdClaim | undefined): number {
  if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
  return Number(b.isHeld) - Number(a.isHeld) || b.generation - a.generation;
}

function encodeAssignment(workerId: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(workerId);
  return bytes;
}
