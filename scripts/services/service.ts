import type { Instance } from './instances.ts';

/** One service of `npm run services`: a file that knows how to use a given one and how to start one. */
export interface Service {
  readonly name: string;
  /** Variables that name one which runs already. */
  readonly variables: string;
  /** The address of the one that the variables name, after it has answered; `null` when they are not set. */
  useGiven(): Promise<string | null>;
  /** Starts one that outlives this process. */
  start(log: (line: string) => void): Promise<Instance | null>;
  answers(instance: Instance): Promise<boolean>;
  /** Lines for a shell that name the given one, or else this one; none where there is neither. */
  env(instance: Instance | undefined): readonly string[];
}
