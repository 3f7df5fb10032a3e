import { type Guard, guardFolder } from './guard.ts';
import { type Instance, newInstance, removeInstance, saveInstance } from './instances.ts';

/** Somebody else listens there by now: another try with other ports helps. */
export class PortTaken extends Error {}

/** An instance that is being started, with a folder of its own and a guard that binds both to our life. */
export interface StartingInstance {
  /** As it was saved last. */
  readonly instance: Instance;
  readonly folder: string;
  readonly guard: Guard;
  save(change: Partial<Instance>): Promise<void>;
  /** It is up. `keep`: from now on it outlives this process. */
  done(keep: boolean): Promise<void>;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

const MAX_TRIES = 3;

/** Makes an instance and starts it; what fails leaves nothing behind. Where a port was taken meanwhile, all of it once more. */
export async function startInstance<T>(
  name: string,
  how: Instance['how'],
  start: (starting: StartingInstance) => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    const starting = await prepare(name, how);
    try {
      return await start(starting);
    } catch (error) {
      await starting.stop();
      if (!(error instanceof PortTaken) || tries === MAX_TRIES) throw error;
    }
  }
}

async function prepare(name: string, how: Instance['how']): Promise<StartingInstance> {
  let instance = await newInstance(name, how);
  const { folder } = instance;
  const guard = guardFolder(folder);
  const save = (change: Partial<Instance>): Promise<void> => {
    instance = { ...instance, ...change };
    return saveInstance(instance);
  };
  return {
    ...{ folder, guard, save },
    get instance() {
      return instance;
    },
    async done(keep) {
      await save({ owner: keep ? null : process.pid });
      if (keep) await guard.release();
    },
    async stop() {
      await removeInstance(instance);
      await guard.release();
    },
  };
}
