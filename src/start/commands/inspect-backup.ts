import type { Config } from '../../config/config.ts';
import { probeS3 } from '../adapters.ts';
import { s3SettingsOf } from '../settings.ts';

/** What became of a probe in the bucket of the backup. */
export interface BucketReport {
  readonly bucket: string;
  /** The key of the probe, where svc may not delete it. */
  readonly left?: string;
  /** Why it was not stored; one line. */
  readonly problem?: string;
}

/** Stores a probe where the events would go, and deletes it. `undefined`: there is no bucket. Never rejects. */
export async function inspectBackup(config: Config): Promise<BucketReport | undefined> {
  const settings = s3SettingsOf(config);
  if (settings === undefined) return undefined;
  const { bucket } = settings;
  try {
    const left = await probeS3(settings);
    return { bucket, ...(left !== undefined && { left }) };
  } catch (error) {
    return { bucket, problem: (error as Error).message };
  }
}
