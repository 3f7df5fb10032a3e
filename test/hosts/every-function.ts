import { readdirSync, readFileSync, statSync } from 'node:fs';
import { relative, resolve, sep } from 'node:path';
import { ownFunctions } from '../../src/capture/source/find.ts';

// `node test/hosts/every-function.ts <folder> <path>...`: a configuration that captures every function that svc can find in
// the files and folders named, which lie below the folder of the application.

function filesIn(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .filter(
      (file) => /\.([cm]?js|[cm]?tsx?)$/.test(file) && !/\.(d|test|spec)\.|(^|\/)node_modules\//.test(file),
    )
    .map((file) => resolve(path, file));
}

/** The targets of a configuration in `folder`. */
export function everyFunction(folder: string, paths: readonly string[]): object[] {
  const files = paths.flatMap((path) => filesIn(resolve(folder, path)));
  return files.flatMap((file) => {
    const module = `./${relative(folder, file).split(sep).join('/')}`;
    return ownFunctions(file, readFileSync(file, 'utf8')).functions.map(({ path }) => ({
      module,
      function: path,
      eventType: `${module} ${path}`,
      payload: '{ ok: true }',
    }));
  });
}

if (process.argv[1] === import.meta.filename) {
  const [folder = '.', ...paths] = process.argv.slice(2);
  const targets = everyFunction(resolve(folder), paths);
  const broker = { client: 'file', topic: 'events', file: { path: './.svc-topics' } };
  process.stdout.write(
    `${JSON.stringify({ svc: { service: { name: 'hosts' }, broker, log: { level: 'error' }, targets } }, null, 1)}\n`,
  );
}
