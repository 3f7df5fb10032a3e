import { shared } from '../../ground/lifecycle.ts';
import type { Producer } from '../publisher.ts';

export interface RunningService {
  readonly producer: Producer;
  /** `svc.broker.client`. */
  readonly brokerClient: string;
  /** Whether each event that was handed over until now has its outcome, after `deadlineMs` at the latest. */
  flush(deadlineMs: number): Promise<boolean>;
  /** Resolves when the keys of a key service were fetched anew, or could not be. */
  invalidateEncryptionKeys(): Promise<void>;
}

/** The one service of this process, whichever copy of the package started it. */
export const runningService: { current: RunningService | undefined } = shared('service', () => ({
  current: undefined,
}));
