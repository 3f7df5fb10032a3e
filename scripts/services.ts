import { parseArgs } from 'node:util';
import { cacheFolder } from './services/cache.ts';
import { serviceCommands } from './services/service-commands.ts';
import { Unavailable } from './services/unavailable.ts';

const HELP = `Usage: npm run services -- <command> [service...]

Real servers for the tests and for trying svc by hand. Services: kafka (the default).

  up       start the services; one that this checkout started before and that still answers is kept
  down     end what up has started, and remove its data
  status   show what runs, test runs among it
  env      print the addresses as shell commands: eval "$(npm run -s services -- env)"

  --new    with up: start another one beside those that run
  --json   with status: one JSON array

Kafka is taken from, in this order: the brokers named by KAFKA_BROKERS (host:port,...); Apache Kafka from Maven
Central on Java 17+; Docker and ops/compose.yaml. Downloads, data and logs are kept in ${cacheFolder()}
(SVC_CACHE names another folder).

Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 a service cannot be had on this machine.
`;

const SERVICES = ['kafka'];

async function main(): Promise<number> {
  const { values, positionals } = parse();
  if (values.help || positionals[0] === 'help') return print(HELP);
  const [name = '', ...services] = positionals;
  const command = serviceCommands[name];
  if (!command) return fail(2, `${name ? `no such command: ${name}` : 'a command is missing'}\n\n${HELP}`);
  const unknown = services.find((each) => !SERVICES.includes(each));
  if (unknown) return fail(2, `no such service: ${unknown}. There is: ${SERVICES.join(', ')}`);
  return command({ another: values.new, json: values.json });
}

function parse() {
  const options = {
    help: { type: 'boolean', short: 'h', default: false },
    new: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  } as const;
  return parseArgs({ options, allowPositionals: true });
}

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

function fail(code: number, message: string): number {
  console.error(message);
  return code;
}

try {
  process.exitCode = await main();
} catch (error) {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof Unavailable) process.exitCode = fail(3, `${message}\nHow to get it: ${error.how}`);
  else process.exitCode = fail(String(code).startsWith('ERR_PARSE_ARGS') ? 2 : 1, message);
}
