import type { ConsoleDocument } from '../src/manage/views.ts';
import { keepToken, token } from './ask.ts';
import { clock, duration } from './format.ts';
import { isPaused, needsToken, trouble } from './live.ts';

export function Head({ document }: { readonly document: ConsoleDocument }) {
  const { service, svc, host, pid, node, environment, upSeconds } = document.process;
  const name = service.name ?? 'a service without a name';
  window.document.title = `${titleMark(document)}${name} – svc`;
  const facts = [
    `host ${host}`,
    `pid ${pid}`,
    `Node ${node}`,
    `svc ${svc.version}`,
    `up ${duration(upSeconds * 1_000)}`,
  ];
  return (
    <header>
      <div class="title">
        <h1>
          {name} {service.version !== null && <small>{service.version}</small>}
        </h1>
        {environment !== null && <span class="chip accent">{environment}</span>}
        <span class="chip">this process only</span>
      </div>
      <p class="facts">
        {facts.map((fact) => (
          <span key={fact}>{fact}</span>
        ))}
      </p>
      <div class="tools">
        <span class="live" data-state={trouble.value ? 'away' : isPaused.value ? 'paused' : 'live'}>
          {trouble.value ? 'no answer' : isPaused.value ? 'paused' : 'live'} · {clock(document.atMs)}
        </span>
        <button
          type="button"
          aria-pressed={isPaused.value}
          onClick={() => {
            isPaused.value = !isPaused.value;
          }}
        >
          {isPaused.value ? 'Go on' : 'Pause'}
        </button>
        <button
          type="button"
          onClick={() => {
            if (token.value === undefined) needsToken.value = true;
            else keepToken(undefined);
          }}
        >
          {token.value === undefined ? 'Token…' : 'Forget token'}
        </button>
      </div>
    </header>
  );
}

/** Shown in the title of the tab. */
function titleMark({ health }: ConsoleDocument): string {
  if (health.status === 'DOWN' || health.details.state === 'CRITICAL') return '● ';
  return health.details.state === 'WARNING' ? '○ ' : '';
}
