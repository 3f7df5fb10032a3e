import { join } from 'node:path';
import { lastLines, runCommand } from './commands.ts';
import { Unavailable } from './unavailable.ts';

const INSTALL_TIMEOUT_MS = 8 * 60_000;

/** What to put into a virtual environment: arguments of `pip install`. */
export interface PythonPackages {
  /** For messages: `moto 5.2.5`. */
  readonly title: string;
  readonly install: readonly string[];
}

/**
 * Makes a virtual environment in a folder and installs packages from PyPI into it.
 * The folder may be renamed afterwards: only its `bin/python` is used.
 * @throws {@link Unavailable} without Python, its venv module, or PyPI
 */
export async function makePythonEnvironment(
  folder: string,
  { title, install }: PythonPackages,
  log: (line: string) => void,
): Promise<void> {
  log(`${title}: installing it from PyPI (once)`);
  const made = await runCommand('python3', ['-m', 'venv', folder], { timeoutMs: 120_000 });
  const how = 'install Python 3.9 or newer with its venv module';
  if (made.code === 127) throw new Unavailable('there is no Python (python3)', how);
  if (made.code !== 0) {
    throw new Unavailable(
      `python3 -m venv failed (exit code ${made.code}):\n${lastLines(`${made.stdout}${made.stderr}`, 4)}`,
      how,
    );
  }
  const python = pythonIn(folder);
  const args = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-input', ...install];
  const { code, stderr } = await runCommand(python, args, { timeoutMs: INSTALL_TIMEOUT_MS });
  if (code !== 0) {
    throw new Unavailable(
      `pip could not install ${title} (${code === null ? 'time-out' : `exit code ${code}`}):\n${lastLines(stderr, 4)}`,
      'check the network and the settings of pip',
    );
  }
  log(`${title}: ready`);
}

/** The Python of a virtual environment. */
export function pythonIn(folder: string): string {
  return join(folder, 'bin', 'python');
}
