import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Unavailable } from '../../scripts/services/unavailable.ts';

/** Programs of a JDK: those of JAVA_HOME, else those on the PATH. */
export interface Jdk {
  readonly java: string;
  readonly javac: string;
}

/** Throws {@link Unavailable} where there is no compiler; a Java runtime alone has none. */
export function findJdk(): Jdk {
  const program = (name: string): string => {
    const home = process.env.JAVA_HOME ? join(process.env.JAVA_HOME, 'bin', name) : '';
    return home && existsSync(home) ? home : name;
  };
  const jdk = { java: program('java'), javac: program('javac') };
  if (spawnSync(jdk.javac, ['-version'], { timeout: 20_000 }).status === 0) return jdk;
  throw new Unavailable('there is no javac', 'install a JDK 17 or newer');
}
