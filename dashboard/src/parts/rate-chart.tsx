import type { Overview } from '#sdk';
import { formatNumber } from './format.ts';

type Minutes = Overview['rates']['minutes'];

const width = 600;
const height = 120;
const gap = 2;

/** Events and errors of each of the last 60 minutes as bars. The figures are in a table for those who cannot see them. */
export function RateChart({ minutes }: { minutes: Minutes }) {
  const top = Math.max(1, ...minutes.map(({ events, errors }) => events + errors));
  const step = width / Math.max(1, minutes.length);
  const scaled = (count: number) => (count === 0 ? 0 : Math.max(2, (count / top) * height));
  const busy = minutes.filter(({ events, errors }) => events + errors > 0);
  return (
    <figure className="chart">
      <div className="chart-scale" aria-hidden="true">
        <span>{formatNumber(top)}</span>
        <span>0</span>
      </div>
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
        {minutes.map(({ at, events, errors }, index) => {
          const error = scaled(errors);
          const event = scaled(events);
          const x = index * step + gap / 2;
          return (
            <g key={at}>
              <title>{`${new Date(at * 1000).toLocaleTimeString()}: ${events} events, ${errors} errors`}</title>
              <rect className="hit" x={index * step} y={0} width={step} height={height} />
              <rect className="bar" x={x} y={height - event - error} width={step - gap} height={event} />
              <rect className="bar bad" x={x} y={height - error} width={step - gap} height={error} />
            </g>
          );
        })}
      </svg>
      <figcaption>
        <span>−60 min</span>
        <span>
          <span className="key" /> events <span className="key bad" /> errors, per minute
        </span>
        <span>now</span>
      </figcaption>
      <table className="off-screen">
        <caption>Minutes of the last hour with events</caption>
        <thead>
          <tr>
            <th>Minute</th>
            <th>Events</th>
            <th>Errors</th>
          </tr>
        </thead>
        <tbody>
          {busy.map(({ at, events, errors }) => (
            <tr key={at}>
              <td>{new Date(at * 1000).toLocaleTimeString()}</td>
              <td>{events}</td>
              <td>{errors}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}
