import { formatClock } from './format.ts';
import { visible } from './plain-text.ts';

/** What a step printed. `ts`: epoch ms. */
export function LogLines({ lines }: { lines: readonly { ts: number; level: string; message: string }[] }) {
  return (
    <ol className="log flat">
      {lines.map((line, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: what was printed never changes its order.
        <li key={index} className={`log-line ${levelClass(line.level)}`}>
          <time className="muted log-time" dateTime={new Date(line.ts).toISOString()}>
            {formatClock(line.ts)}
          </time>
          <span className="log-level">{visible(line.level.slice(0, 20))}</span>
          <div className="log-text">
            <pre>{visible(line.message)}</pre>
          </div>
        </li>
      ))}
    </ol>
  );
}

function levelClass(level: string): string {
  return level === 'error' ? 'bad' : level === 'warn' ? 'warn' : '';
}
