import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type CommandResult, lastLines, runCommand } from './commands.ts';
import { Unavailable } from './unavailable.ts';

const DOWNLOAD_TIMEOUT_MS = 5 * 60_000;

/**
 * Fetches an archive from Maven Central and unpacks the named files of it.
 * @param artifact `group:name:version:type`, and `:classifier` where it has one
 * @param files paths in it, `*` and `**` as Ant has them
 * @throws {@link Unavailable} without Maven, or where it cannot fetch it
 */
export async function unpackFromMaven(
  folder: string,
  artifact: string,
  files: readonly string[],
): Promise<void> {
  const args = ['-q', '-B', 'dependency:unpack', `-Dartifact=${artifact}`, `-DoutputDirectory=${folder}`];
  args.push(`-Dmdep.unpack.includes=${files.join(',')}`);
  check(artifact, await runCommand('mvn', args, { cwd: folder, timeoutMs: DOWNLOAD_TIMEOUT_MS }));
}

/**
 * Fetches jars from Maven Central, with all that they need at run time.
 * @param title as people write it, with its version
 * @param artifacts `group:name:version`
 * @throws {@link Unavailable} without Maven, or where it cannot fetch them
 */
export async function fetchJars(
  folder: string,
  title: string,
  artifacts: readonly string[],
  log: (line: string) => void,
): Promise<void> {
  const pom = join(folder, 'pom.xml');
  await writeFile(pom, pomOf(artifacts));
  let downloaded = 0;
  let told = Date.now();
  const result = await runCommand(
    'mvn',
    [
      ...['-B', '-f', pom, 'dependency:copy-dependencies', '-DincludeScope=runtime'],
      `-DoutputDirectory=${folder}`,
    ],
    {
      timeoutMs: DOWNLOAD_TIMEOUT_MS,
      onLine: (line) => {
        if (line.includes('Downloaded from')) downloaded++;
        if (downloaded === 0 || Date.now() - told < 2_000) return;
        told = Date.now();
        log(`${title}: ${downloaded} files downloaded`);
      },
    },
  );
  check(title, result);
  const jars = (await readdir(folder)).filter((name) => name.endsWith('.jar')).length;
  log(`${title}: ${jars} jars ready`);
}

function pomOf(artifacts: readonly string[]): string {
  const dependencies = artifacts.map((artifact) => {
    const [group, name, version] = artifact.split(':');
    return `<dependency><groupId>${group}</groupId><artifactId>${name}</artifactId><version>${version}</version></dependency>`;
  });
  return `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>svc</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    ${dependencies.join('\n    ')}
  </dependencies>
</project>
`;
}

function check(what: string, { code, stdout, stderr }: CommandResult): void {
  if (code === 127) throw new Unavailable('there is no Maven (mvn)', 'install Maven');
  if (code === 0) return;
  throw new Unavailable(
    `Maven could not fetch ${what} (${code === null ? 'time-out' : `exit code ${code}`}):\n${lastLines(`${stdout}\n${stderr}`, 6)}`,
    'check the network and the settings of Maven',
  );
}
