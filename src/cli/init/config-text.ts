import type { Candidate } from './find-commands.ts';

/** A function that is to be a target; `line` where its file shows it. */
export type NamedTarget = Omit<Candidate, 'distance' | 'line'> & { readonly line?: number };

/** What `svc init` was told. */
export interface Answers {
  readonly targets: readonly NamedTarget[];
  /** `host:port`; none: events go to files. */
  readonly brokers: readonly string[];
  readonly topic: string;
}

/** `svc.config.yaml`, for people to go on with. @param schema where the JSON Schema lies, from the folder of the file */
export function configText({ targets, brokers, topic }: Answers, schema: string): string {
  const broker =
    brokers.length === 0
      ? [
          '    # bootstrap-servers: [localhost:9092]   # Kafka; without it events go to files in ./svc-topics',
          `    topic: ${quoted(topic)}`,
        ]
      : [`    bootstrap-servers: [${brokers.map(quoted).join(', ')}]`, `    topic: ${quoted(topic)}`];
  const lines = [
    `# yaml-language-server: $schema=${schema}`,
    '#',
    '# Which calls of this application become events. Each setting, with its default: docs/configuration.md of svc.',
    '# "npx --no svc check" says whether each target is found, "npx --no svc doctor" whether the broker takes events.',
    'svc:',
    '  broker:',
    ...broker,
    `    # dlq-topic: ${quoted(`${topic}.dlq`)}   # where events go that the topic does not take`,
    '    # async-mode: true   # calls do not wait until their event is acknowledged; a kill -9 then loses what is in memory',
    '',
    '  # Expressions see #result, the parameters by their names, and #self: docs/expressions.md.',
    '  # What must not leave the process as it is: svc.pii.fields masks, encrypts or hashes it: docs/personal-data.md.',
    '  targets:',
    ...targets.flatMap(targetLines),
  ];
  return `${lines.join('\n')}\n`;
}

function targetLines({ module, path, line, eventType, payload, key, leftOut }: NamedTarget): string[] {
  return [
    `    - module: ${quoted(module)}${line === undefined ? '' : `   # line ${line}`}`,
    `      function: ${quoted(path)}`,
    `      eventType: ${quoted(eventType)}`,
    payload === undefined
      ? '      # payload: "{ id: #result.id }"   # left out: all that the function returns'
      : `      payload: ${JSON.stringify(payload)}`,
    ...(leftOut.length === 0
      ? []
      : [
          `      # left out, for it may be personal or secret, or has a name that no expression takes: ${leftOut.map((name) => JSON.stringify(name).slice(1, -1)).join(', ')}`,
        ]),
    key === undefined
      ? '      # key: "#result.id"   # events of one key keep their order; left out: the event id'
      : `      key: ${JSON.stringify(key)}   # events of one key keep their order`,
  ];
}

/** Plain where YAML reads it as the same text. */
function quoted(text: string): string {
  return /^[A-Za-z./][\w./:-]*$/.test(text) &&
    !/^(?:true|false|null|yes|no|on|off)$/i.test(text) &&
    !/:$|: /.test(text)
    ? text
    : JSON.stringify(text);
}
