import { type Option, variableOf } from '../../src/config/schema/schema.ts';

type Files = Record<string, string>;

/** A secret of an option that looks like none of the words of svc. */
export function canaryOf({ name }: Option): string {
  return `Qx7vZk2W${Buffer.from(name).toString('hex').slice(-12)}m9Jp4Ht6`;
}

/** Every way in which a secret can be written wrongly into a file, each with what it is called. */
export function wrongFiles(option: Option, canary: string): [what: string, files: Files][] {
  return [...wrongYaml(option, canary), ...wrongJson(option, canary), ...wrongCode(option, canary)];
}

function wrongYaml({ name }: Option, canary: string): [string, Files][] {
  const parts = name.split('.');
  const values = {
    'an alias': `*${canary}`,
    'a tag': `!${canary}`,
    'a tag with a value': `!${canary} x`,
    'a global tag': `!!${canary} x`,
    'a verbatim tag': `!<${canary}> x`,
    'a tag with a handle': `!${canary}!x y`,
    'two anchors': `&${canary} &${canary} x`,
    'an anchor and its alias': `&${canary} [*${canary}]`,
    'a key': `{ ${canary}: 1 }`,
    'a list': `[${canary}, 7]`,
    'a list of objects': `[{ ${canary}: ${canary} }]`,
    'a quote that is not closed': `"${canary}`,
    'a single quote that is not closed': `'${canary}`,
    'a bracket that is not closed': `[${canary}`,
    'a value behind a quoted one': `"x" ${canary}`,
    'an escape': `"${canary}\\q"`,
    'a directive': `x\n--- ${canary}\n%${canary}`,
    'a reserved character': `@${canary}`,
    'a second document': `x\n---\n${canary}`,
    'a block': `|9${canary}\n  x`,
    'a merge': `{ <<: ${canary} }`,
    'a colon too many': `a: ${canary}: b`,
  };
  const files: [string, Files][] = Object.entries(values).map(([what, value]) => [
    `YAML, ${what}`,
    { 'svc.config.yaml': `${nested(parts, value)}\n` },
  ]);
  // Where each section belongs, and the name of the option.
  for (let depth = 1; depth < parts.length; depth++)
    files.push([`YAML, section ${depth}`, { 'svc.config.yaml': nested(parts.slice(0, depth), canary) }]);
  for (let depth = 0; depth < parts.length; depth++)
    files.push([
      `YAML, name ${depth}`,
      { 'svc.config.yaml': nested([...parts.slice(0, depth), canary], 'x') },
    ]);
  files.push([
    'YAML, the same name twice',
    { 'svc.config.yaml': nested([...parts, canary], `1\n${'  '.repeat(parts.length)}${canary}: 2`) },
  ]);
  files.push(['YAML, alone', { 'svc.config.yaml': canary }]);
  files.push(['YAML, a name without its colon', { 'svc.config.yaml': `svc:\n  ${canary}\n  broker: 1\n` }]);
  files.push(['YAML, indented with tabs', { 'svc.config.yaml': `svc:\n\t${canary}: 1` }]);
  return files;
}

function wrongJson({ name }: Option, canary: string): [string, Files][] {
  const texts = {
    'no quotes': `{ "${name}": ${canary} }`,
    'single quotes': `{ "${name}": '${canary}' }`,
    'a comma too many': `{ "${name}": "${canary}", }`,
    'a quote in it': `{ "${name}": "${canary}"x" }`,
    'text behind it': `{ "${name}": "x" } ${canary}`,
    'cut off': `{ "${name}": "${canary}`,
    'an escape': `{ "${name}": "${canary}\\q" }`,
    'a line end': `{ "${name}": "${canary}\n" }`,
    alone: `"${canary}"`,
    'a list': `{ "${name}": ["${canary}"] }`,
    'a key': `{ "${name}": { "${canary}": 1 } }`,
    'a number': `{ "${name}": 9182736455 }`,
  };
  return Object.entries(texts).map(([what, text]) => [`JSON, ${what}`, { 'svc.config.json': text }]);
}

function wrongCode({ name }: Option, canary: string): [string, Files][] {
  const texts = {
    'no quotes': `export default { '${name}': ${canary} };`,
    'a quote that is not closed': `export default { '${name}': '${canary} };`,
    'text behind it': `export default { '${name}': 'x' ${canary} };`,
    'a syntax error near it': `export default { '${name}': '${canary}' '${canary}' };`,
    'an error that quotes it': `throw new Error('${canary}');`,
    'an error of that name': `throw Object.assign(new Error('x'), { name: '${canary}', code: '${canary}' });`,
    'an error whose stack quotes it': `const e = new Error('x'); e.stack = '${canary}'; throw e;`,
    'a class of errors': `class ${canary} extends Error {}\nthrow new ${canary}();`,
    'thrown itself': `throw '${canary}';`,
    'an import': `import '${canary}'; export default {};`,
    'an import that is not exported': `import { ${canary} } from 'node:fs'; export default {};`,
    'a call of it': `export default { '${name}': '${canary}'() };`,
    'a promise': `export default Promise.reject(new Error('${canary}'));`,
    'a function': `export default { '${name}': function ${canary}() {} };`,
    'a symbol': `export default { '${name}': Symbol('${canary}') };`,
    'a getter that throws': `export default { get '${name}'() { throw new Error('${canary}'); } };`,
    'a getter that throws an error of that name': `export default { get svc() { throw Object.assign(new Error(), { name: '${canary}' }); } };`,
    'a list': `export default { '${name}': ['${canary}'] };`,
    'a key': `export default { '${name}': { '${canary}': 1 } };`,
    alone: `export default '${canary}';`,
  };
  return Object.entries(texts).flatMap(([what, text]): [string, Files][] => [
    [`code, ${what}`, { 'svc.config.mjs': text }],
    [`TypeScript, ${what}`, { 'svc.config.ts': text }],
  ]);
}

/** The option's own variables, and all others in which it could land. */
export function wrongVariables(
  option: Option,
  canary: string,
): [what: string, env: Record<string, string>][] {
  const own = [variableOf(option.name), ...(option.aliases ?? [])];
  const texts = [
    canary,
    `${canary} ${canary}`,
    `"${canary}`,
    `[{"${canary}": 1}]`,
    `{${canary}`,
    `\n${canary}\u0000`,
  ];
  const others = [
    'SVC_TARGETS',
    'SVC_BROKER_ACKS',
    'SVC_BROKER_TOPIC',
    'SVC_BROKER_BOOTSTRAP_SERVERS',
    'SVC_ENABLED',
  ];
  const { shared } = option;
  const switchedOn = shared && { [variableOf(shared.switch)]: 'true' };
  return [...own, ...(shared ? [shared.variable] : []), ...others].flatMap((variable) =>
    texts.map((text): [string, Record<string, string>] => [
      `${variable}=${JSON.stringify(text)}`,
      // A topic's name is shown: this is none, whatever the text.
      { ...switchedOn, [variable]: variable === 'SVC_BROKER_TOPIC' ? `${text} /` : text },
    ]),
  );
}

function nested(parts: readonly string[], value: string): string {
  const lines = parts.map((part, depth) => `${'  '.repeat(depth)}${part}:`);
  return `${lines.join('\n')} ${value}`;
}
