import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { cacheFolder, checkoutFolder, ensureFolder } from './cache.ts';
import { makePythonEnvironment, pythonIn } from './python.ts';
import { Unavailable } from './unavailable.ts';

const VERSION = '2.16.1';
const ANSWER_TIMEOUT_MS = 60_000;

/** librdkafka's mock cluster of three brokers: it answers with any error that is asked for. */
export interface KafkaMock {
  readonly brokers: readonly string[];
  /** A line as scripts/services/kafka_mock.py knows it; resolves with the lines before its end. Rejects where it fails. */
  tell(line: string): Promise<string[]>;
  stop(): void;
}

/** librdkafka comes in the wheel of its Python client, built. Throws {@link Unavailable}. */
export async function ensureKafkaMock(log: (line: string) => void): Promise<string> {
  const packages = { title: `confluent-kafka ${VERSION}`, install: [`confluent-kafka==${VERSION}`] };
  try {
    return await ensureFolder(cacheFolder(`confluent-kafka-${VERSION}`), (temporary) =>
      makePythonEnvironment(temporary, packages, log),
    );
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    throw new Unavailable(
      `no mock cluster: ${error.message}`,
      'install Python 3.9 or newer with venv, with PyPI in reach',
    );
  }
}

/** It ends with this process: its input ends then. */
export async function startKafkaMock(log: (line: string) => void): Promise<KafkaMock> {
  const python = pythonIn(await ensureKafkaMock(log));
  const script = join(checkoutFolder, 'scripts', 'services', 'kafka_mock.py');
  const child = spawn(python, [script, '3'], { stdio: ['pipe', 'pipe', 'inherit'] });
  let rest = '';
  const lines: string[] = [];
  let wake = (): void => {};
  child.stdin.on('error', () => {});
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const parts = (rest + text).split('\n');
    rest = parts.pop() ?? '';
    for (const part of parts) lines.push(part);
    wake();
  });
  child.once('exit', () => wake());

  /** Lines up to the one that ends the answer. */
  async function answer(isEnd: (line: string) => boolean): Promise<string[]> {
    const end = Date.now() + ANSWER_TIMEOUT_MS;
    for (;;) {
      const at = lines.findIndex(isEnd);
      if (at >= 0) return lines.splice(0, at + 1);
      if (child.exitCode !== null || Date.now() > end) throw new Error('the mock cluster does not answer');
      await new Promise<void>((resolve) => {
        wake = resolve;
        setTimeout(resolve, 1_000).unref();
      });
    }
  }

  const [address = ''] = await answer(() => true);
  return {
    brokers: address.split(','),
    async tell(line) {
      child.stdin.write(`${line}\n`);
      const told = await answer((each) => /^(done|failed) /.test(each));
      const last = told.pop() ?? '';
      if (last !== 'done 0') throw new Error(`the mock cluster, told "${line}": ${last}`);
      return told;
    },
    stop: () => void child.kill('SIGKILL'),
  };
}
