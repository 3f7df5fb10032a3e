// Writes docs/configuration.md and svc.config.schema.json from the list of options in src/config.
// Run it after a change of that list: node scripts/generate-config-docs.ts
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Option, options, variableOf } from '../src/config/schema/schema.ts';
import { type TargetField, targetFields } from '../src/config/schema/target.ts';
import { buildJsonSchema } from './json-schema.ts';
import { wordsOf } from './option-words.ts';

const sections: readonly (readonly [prefix: string, title: string])[] = [
  ['svc.enabled', 'Switches'],
  ['svc.required', 'Switches'],
  ['svc.aop.', 'Switches'],
  ['svc.service.', 'Service'],
  ['svc.telemetry.', 'OpenTelemetry'],
  ['svc.log.', 'Logging and the end of the process'],
  ['svc.shutdown.', 'Logging and the end of the process'],
  ['svc.id-generator.', 'Event ids'],
  ['svc.broker.dlq-', 'Dead letters and backups'],
  ['svc.broker.backup.', 'Dead letters and backups'],
  ['svc.broker.', 'Broker'],
  ['svc.retry.', 'Retries'],
  ['svc.serde.', 'Form of events (serde)'],
  ['svc.outbox.', 'Transactional outbox'],
  ['svc.security.', 'Request context'],
  ['svc.context.', 'Request context'],
  ['svc.pii.', 'Personal data'],
  ['management.', 'Management server'],
];

const head = `<!-- Made by scripts/generate-config-docs.ts: change the options in src/config, not this page. -->
# Configuration

A configuration that publishes the calls of one function, and all options. Options without a default are unset.

\`\`\`yaml
# yaml-language-server: $schema=./node_modules/svc/svc.config.schema.json
svc:
  service: { name: orders, version: 1.4.0 }
  broker:
    bootstrap-servers: [localhost:9092]
    topic: orders.events.v1
  targets:
    - { module: ./src/orders.ts, function: createOrder, eventType: ORDER_CREATED, payload: "#result" }
management:
  server: { port: 17820, address: 127.0.0.1 }
\`\`\`

## The file

svc reads \`svc.config.yaml\`, \`.yml\`, \`.json\`, \`.mjs\` or \`.ts\`, in this order. It searches the working directory and the folders above it, up to the
nearest package.json or the root of its workspace. To choose another file, set \`SVC_CONFIG\`, or use \`--config\` with commands. The log names the
file, or where svc searched.

- **Order.** Defaults, the file, environment variables, code: later values win. A list is replaced as a whole.
- **Names.** Nested or dotted (\`svc.broker.topic: orders\`), in kebab-case or camelCase (\`asyncMode\`). Don't set a name twice. A name without a
  value is unset.
- **Environment.** Each name is a variable: \`svc.broker.request-timeout-ms\` is \`SVC_BROKER_REQUEST_TIMEOUT_MS\`. Separate list items by commas,
  and write \`SVC_TARGETS\` as JSON. Switches are \`true\` or \`false\` (or 1 or 0). An empty variable is unset.
- **Paths** start at the folder of the file, or at the working directory if there is no file.
- **Fixed values** ignore upper and lower case.
- **Code.** \`.mjs\` and \`.ts\` files export the object as \`default\`, and can contain functions. \`defineConfig({ svc: { … } })\` of \`svc\` checks its types.
  The file runs synchronously before the application: don't use top-level \`await\`, and don't import application code, which svc could
  then no longer patch. \`.ts\` needs Node 22.18 or later, or a loader such as tsx.
- **Mistakes.** svc reports all of them at the start, with the place and the fix. Your application then runs without svc. A mistake in a target omits
  only that target. Messages show no values, and no unknown names (\`svc.?\`) outside targets.
- **Off.** With \`svc.enabled: false\` in the environment or in code, svc doesn't read the file.
- **Permissions.** svc refuses a file that others can change. Code must belong to the user of the process or root, and nobody else may write it or its folder.
  svc refuses YAML and JSON of another user in a folder that everybody can write. \`SVC_CONFIG\` skips this check: use it in a container that runs
  as root on files of another user.
`;

/** The whole of docs/configuration.md. */
export function renderPage(): string {
  let page = head;
  for (const title of new Set(sections.map(([, title]) => title))) {
    page += `\n## ${title}\n\n${table(options.filter((option) => titleOf(option) === title))}`;
  }
  page += `\n## Targets\n\nEach entry of the list \`svc.targets\` captures one function. Kebab-case works here too.\n\n`;
  page += `| Field | Values | Default | Meaning |\n|---|---|---|---|\n${targetFields.map(targetRow).join('')}`;
  return page;
}

function titleOf(option: Option): string {
  const section = sections.find(([prefix]) => option.name.startsWith(prefix));
  if (section === undefined) throw new Error(`${option.name} belongs to no section of the page`);
  return section[1];
}

function table(rows: readonly Option[]): string {
  const head = '| Name and variable | Values | Default | Meaning |\n|---|---|---|---|\n';
  return head + rows.map(row).join('');
}

function row(option: Option): string {
  const variables = [variableOf(option.name), ...(option.aliases ?? [])]
    .map((name) => `\`${name}\``)
    .join(', ');
  return line([`\`${option.name}\`<br>${variables}`, valuesOf(option), defaultOf(option), wordsOf(option)]);
}

function targetRow(field: TargetField): string {
  const byDefault = field.required ? 'required' : defaultOf(field);
  return line([`\`${field.name}\``, valuesOf(field), byDefault, wordsOf(field)]);
}

function defaultOf(option: Option | TargetField): string {
  if ('defaultText' in option && option.defaultText !== undefined) return option.defaultText;
  if (option.default === undefined) return '';
  const value = Array.isArray(option.default) ? option.default.join(', ') : String(option.default);
  return value === '' ? 'empty' : `\`${value}\``;
}

const typeNames: Readonly<Record<string, string>> = {
  enum: '',
  headers: 'object',
  outbox: 'object',
  string: '',
};

/** Short here: the messages of the check say each form in full. */
const formNames: Readonly<Record<NonNullable<Option['format']>, string>> = {
  text: 'text',
  topic: 'topic name',
  'host-and-port': 'host:port',
  'name-and-value': 'name=value',
  path: 'path',
  'header-name': 'header name',
  'actor-source': 'source',
  'trusted-proxy': 'address, range or `unix`',
  'listen-address': 'IP address or hostname',
  token: 'token',
  'management-token': 'token of 16 characters or more',
  url: 'http or https URL',
  'uri-reference': 'URI reference',
  'datasource-url': 'URL: `postgres://`, `mysql://`, `mariadb://`, or `sqlite:` and a path',
  table: 'table name',
};

function valuesOf(option: Option | TargetField): string {
  const isBareText = option.type === 'string' && option.format === undefined;
  const isRange = option.type === 'integer' && option.min !== undefined;
  const parts: string[] = [isBareText ? 'text' : isRange ? '' : (typeNames[option.type] ?? option.type)];
  if (option.type === 'enum' || option.values)
    parts.push((option.values ?? []).map((value) => `\`${value}\``).join(', '));
  const unit = 'unit' in option && option.unit ? ` ${option.unit}` : '';
  if (option.min !== undefined) parts.push(`${option.min} to ${option.max}${unit}`);
  if (option.format) parts.push(formNames[option.format]);
  if ('registeredBy' in option && option.registeredBy)
    parts.push(`or a name that \`${option.registeredBy}()\` has`);
  if (option.orFunction) parts.push('or a function');
  if ('secret' in option && option.secret) parts.push('secret');
  return parts.filter((part) => part !== '').join(', ');
}

function line(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const root = resolve(import.meta.dirname, '..');
  writeFileSync(resolve(root, 'docs/configuration.md'), renderPage());
  const schema = resolve(root, 'svc.config.schema.json');
  writeFileSync(schema, JSON.stringify(buildJsonSchema()));
  const biome = resolve(root, 'node_modules/.bin/biome');
  execFileSync(biome, ['format', '--write', schema], { stdio: 'ignore' });
}
