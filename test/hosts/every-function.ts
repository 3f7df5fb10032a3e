import { readdirSync, readFileSync, statSync } from 'node:fs';
import { relative, resolve, sep } from 'node:path';
import type { Class, Node } from 'oxc-parser';
import { finder } from '../../src/capture/source/find/find.ts';
import { scan } from '../../src/capture/source/find/scan.ts';
import { core, isClass, isFunction } from '../../src/capture/source/find/syntax.ts';
import { parse } from '../../src/capture/source/parse-text.ts';
import { isProblem } from '../../src/capture/source/wrapper-place.ts';

// `node test/hosts/every-function.ts <folder> <path>...`: a configuration that captures every function that svc can find in
// the files and folders named, which lie below the folder of the application.

/** Paths of functions in one file, as targets name them. */
export function functionsOf(file: string): string[] {
  const text = readFileSync(file, 'utf8');
  const parsed = parse(file, text, { goal: 'unknown', typed: /\.[cm]?tsx?$/.test(file) });
  if (isProblem(parsed)) return [];
  const find = finder(parsed.program, text);
  const names = [...scan(parsed.program, text).byName].flatMap(([name, definitions]) =>
    definitions.flatMap((each) => pathsIn(name.replace(/^exports\.(?=.)/, ''), core(each.node as never))),
  );
  return [...new Set(names)].filter((name) => !isProblem(find(name)));
}

function pathsIn(name: string, node: Node): string[] {
  if (isFunction(node)) return [name];
  if (isClass(node)) return node.body.body.flatMap((member) => pathsOfMember(name, member));
  if (node.type !== 'ObjectExpression') return [];
  return node.properties.flatMap((each) =>
    each.type === 'Property' && each.kind === 'init' && !each.computed && each.key.type === 'Identifier'
      ? pathsIn(`${name}.${each.key.name}`, core(each.value as never))
      : [],
  );
}

function pathsOfMember(name: string, member: Class['body']['body'][number]): string[] {
  if (member.type !== 'MethodDefinition' && member.type !== 'PropertyDefinition') return [];
  if (member.computed || member.key.type !== 'Identifier') return [];
  if (
    member.type === 'MethodDefinition' ? member.kind !== 'method' : !member.value || !isFunction(member.value)
  )
    return [];
  return [`${name}.${member.static ? '' : 'prototype.'}${member.key.name}`];
}

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
    return functionsOf(file).map((name) => ({
      module,
      function: name,
      eventType: `${module} ${name}`,
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
