import { lastLines, runCommand } from './commands.ts';
import { Unavailable } from './unavailable.ts';

const DOWNLOAD_TIMEOUT_MS = 5 * 60_000;

/**
 * Fetches a jar from Maven Central and unpacks the named files of it.
 * @param artifact `group:name:version`
 * @param files paths in the jar, `*` and `**` as Ant has them
 * @throws {@link Unavailable} without Maven, or where it cannot fetch the jar
 */
export async function unpackFromMaven(
  folder: string,
  artifact: string,
  files: readonly string[],
): Promise<void> {
  const args = ['-q', '-B', 'dependency:unpack', `-Dartifact=${artifact}:jar`, `-DoutputDirectory=${folder}`];
  args.push(`-Dmdep.unpack.includes=${files.join(',')}`);
  const { code, stdout, stderr } = await runCommand('mvn', args, {
    ...{ cwd: folder, timeoutMs: DOWNLOAD_TIMEOUT_MS },
  });
  if (code === 127) throw new Unavailable('there is no Maven (mvn)', 'install Maven');
  if (code !== 0) {
    throw new Unavailable(
      `Maven could not fetch ${artifact} (${code === null ? 'time-out' : `exit code ${code}`}):\n${lastLines(`${stdout}\n${stderr}`, 6)}`,
      'check the network and the settings of Maven',
    );
  }
}
