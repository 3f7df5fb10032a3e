import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type LocalServer, startLocalServer } from '../../scripts/services/local-server.ts';
import { ensurePrometheus } from '../../scripts/services/prometheus-programs.ts';

/** A series of an instant query: its labels, and its value now. */
export interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface TestPrometheus {
  /** Evaluates an expression now. */
  query(expression: string): Promise<readonly Sample[]>;
  stop(): Promise<void>;
}

export interface PrometheusRules {
  /** Contents of rule files, as objects; evaluated five times a second. */
  readonly ruleFiles: readonly object[];
  /** How long a value stands that was not scraped again, such as `5s`. Default: Prometheus', five minutes. */
  readonly lookback: string;
}

/** A Prometheus of your own that scrapes `/metrics` of some `host:port` five times a second, with rules twice. */
export async function startPrometheus(
  targets: string | readonly string[],
  rules?: PrometheusRules,
): Promise<TestPrometheus> {
  const programs = await ensurePrometheus();
  if (programs === null) throw new Error('there is no Prometheus; requiring() says how to get it');
  const server = await startLocalServer({
    name: 'prometheus',
    async prepare(folder, port) {
      const config = join(folder, 'prometheus.json');
      const ruleFiles = (rules?.ruleFiles ?? []).map((content, at) => ({
        file: `rules-${at}.json`,
        content,
      }));
      for (const { file, content } of ruleFiles) await writeFile(join(folder, file), JSON.stringify(content));
      const names = ruleFiles.map(({ file }) => file);
      await writeFile(config, JSON.stringify(configOf([targets].flat(), names))); // JSON is YAML.
      const listen = `--web.listen-address=127.0.0.1:${port}`;
      const data = `--storage.tsdb.path=${join(folder, 'data')}`;
      const lookback = rules === undefined ? [] : [`--query.lookback-delta=${rules.lookback}`];
      return { program: programs.prometheus, args: [`--config.file=${config}`, data, listen, ...lookback] };
    },
    address: (port) => `http://127.0.0.1:${port}`,
    isReady: async (address) => {
      const answer = await fetch(`${address}/-/ready`).catch(() => undefined);
      return answer?.status === 200 ? null : `it answers ${answer?.status ?? 'nothing'}`;
    },
    portTaken: /address already in use/i,
  });
  return { query: (expression) => query(server, expression), stop: () => server.stop() };
}

function configOf(targets: readonly string[], ruleFiles: readonly string[]): object {
  // With rules it has several targets to ask, on a machine that does much else.
  const interval = ruleFiles.length > 0 ? '500ms' : '200ms';
  const scrape = { job_name: 'svc', scrape_interval: interval, scrape_timeout: interval };
  return {
    global: { evaluation_interval: '200ms' },
    rule_files: ruleFiles,
    scrape_configs: [{ ...scrape, static_configs: [{ targets }] }],
  };
}

async function query({ address }: LocalServer, expression: string): Promise<readonly Sample[]> {
  const answer = await fetch(`${address}/api/v1/query?${new URLSearchParams({ query: expression })}`);
  const { data, error } = (await answer.json()) as Answer;
  if (data === undefined) throw new Error(`Prometheus does not evaluate ${expression}: ${error}`);
  return data.result.map(({ metric, value: [, value] }) => ({ metric, value: Number(value) }));
}

interface Answer {
  readonly data?: { readonly result: readonly { metric: Sample['metric']; value: [number, string] }[] };
  readonly error?: string;
}
