import { useQueue } from '~/api/workflow-queries.ts';
import { Ago } from '~/parts/ago.tsx';
import { formatNumber } from '~/parts/format.ts';
import { oneLine } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';

/** Events that did not run which are shown. */
const notRunShown = 10;

/** What waits for a workflow or source with flow control, and why; looked at again every two seconds. */
export function FlowQueue({ id }: { id: string }) {
  const queue = useQueue(id);
  if (queue.error !== null && queue.data === undefined) return <Problem error={queue.error} />;
  if (queue.data === undefined) return null;
  const { arrived, collected, waiting, under_way, totals, waiting_keys, not_run = [] } = queue.data;
  const figures: [string, number][] = [
    ['waiting', waiting + arrived],
    ['held back by debounce or batch', collected],
    ['under way', under_way],
    ['skipped so far', totals.skipped],
    ['replaced so far', totals.replaced],
    ['debounced so far', totals.debounced],
    ['put into batches so far', totals.batched],
  ];
  return (
    <section className="card" aria-labelledby="queue">
      <h2 id="queue">Queue</h2>
      <p className="facts">
        {figures
          .filter(([name, count]) => count > 0 || name === 'waiting')
          .map(([name, count]) => (
            <span key={name}>
              {formatNumber(count)} {name}
            </span>
          ))}
      </p>
      {waiting_keys.length > 0 && (
        <div className="table-scroll">
          <table className="table">
            <thead>
              <tr>
                <th scope="col">Key</th>
                <th scope="col">Waiting</th>
                <th scope="col">Under way</th>
                <th scope="col">Reason</th>
              </tr>
            </thead>
            <tbody>
              {waiting_keys.map((row) => (
                <tr key={`${row.key} ${row.throttle_key}`}>
                  <td>
                    <bdi>{row.key === '' ? 'all events' : oneLine(row.key, 100)}</bdi>
                  </td>
                  <td>{formatNumber(row.waiting)}</td>
                  <td>{formatNumber(row.under_way)}</td>
                  <td>
                    <bdi>{oneLine(row.reason, 300)}</bdi>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {not_run.length > 0 && (
        <div className="table-scroll">
          <table className="table">
            <thead>
              <tr>
                <th scope="col">Not run</th>
                <th scope="col">Reason</th>
              </tr>
            </thead>
            <tbody>
              {not_run.slice(0, notRunShown).map(({ id: run, at, reason }) => (
                <tr key={`${run} ${at}`}>
                  <td>
                    <Ago ms={Date.parse(at)} />
                  </td>
                  <td>
                    <bdi>{oneLine(reason, 300)}</bdi>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
