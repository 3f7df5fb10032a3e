import { createHash, getFips } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** What S3 and its relatives say when they have stored an object. */
export interface PutAnswer {
  readonly ETag?: string | undefined;
  readonly ChecksumCRC32?: string | undefined;
  readonly ServerSideEncryption?: string | undefined;
}

/**
 * Whether an answer could only be given by a store that has these bytes: a wrong endpoint says 200 as well. The ETag is their MD5,
 * but for keys of AWS KMS, as the answer says then; newer SDKs have the store compare a checksum. Stores with ETags of their own
 * are asked once more.
 */
export function provesStored(
  { ETag, ChecksumCRC32, ServerSideEncryption }: PutAnswer,
  body: Buffer,
): boolean {
  if (ETag === undefined || ETag === '') return false;
  if (ServerSideEncryption?.startsWith('aws:kms')) return true;
  const checksum = Buffer.alloc(4);
  checksum.writeUInt32BE(crc32(body));
  if (ChecksumCRC32 === checksum.toString('base64')) return true;
  // There is no MD5 then.
  if (getFips() === 1) return false;
  return ETag.replaceAll('"', '').toLowerCase() === createHash('md5').update(body).digest('hex');
}
