import { rate } from './format.ts';

const [width, height] = [120, 22];
/** The maximum length of a trend. */
const steps = 60;
const stepSeconds = 10;

/** The last ten minutes of an event type: a line to compare by its shape, and a text for screen readers. */
export function Sparkline({ events }: { readonly events: readonly number[] | undefined }) {
  if (events === undefined || events.length === 0) return <span>–</span>;
  const max = Math.max(...events);
  const perSecond = (count: number): string => rate(count / stepSeconds);
  const mean = events.reduce((sum, count) => sum + count, 0) / events.length;
  const label = `${perSecond(mean)} on average, ${perSecond(max)} at most, ${perSecond(events.at(-1) ?? 0)} now`;
  const x = (index: number): number => width - ((events.length - 1 - index) * width) / (steps - 1);
  const y = (count: number): number => height - 1 - (max === 0 ? 0 : (count / max) * (height - 3));
  const line = events.map((count, index) => `${x(index).toFixed(1)} ${y(count).toFixed(1)}`).join('L');
  return (
    <svg
      class="sparkline"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      <title>{label}</title>
      <path class="area" d={`M${x(0).toFixed(1)} ${height}L${line}L${width} ${height}Z`} />
      <path class="trend" d={`M${line}`} />
    </svg>
  );
}
