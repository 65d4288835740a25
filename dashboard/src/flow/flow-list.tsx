import { useState } from 'react';
import { Link } from 'wouter';
import type { FlowEdge, FlowFigures, FlowNode } from '#sdk';
import { Ago } from '~/parts/ago.tsx';
import { formatNumber } from '~/parts/format.ts';
import { edgeFailures, isFailing, nodeTroubles } from './troubles.ts';
import { channelWords, kindName, nameOf, pageOf, rateWords, triggerWords } from './words.ts';

const rowsStep = 100;

interface Row {
  key: string;
  from: { name: string; href: string | undefined };
  what: string;
  to: { name: string; href: string | undefined };
  figures: FlowFigures | null;
  failures: readonly string[];
  isFailing: boolean;
}

/** The map as a table: emitters, their listeners, the number of events, and failures. It has the same content as the picture. */
export function FlowList({ nodes, edges }: { nodes: readonly FlowNode[]; edges: readonly FlowEdge[] }) {
  const [shown, setShown] = useState(rowsStep);
  const rows = rowsOf(nodes, edges);
  const ends = new Set(edges.flatMap(({ emitter_id, listener_id }) => [emitter_id, listener_id]));
  const alone = nodes.filter(({ id, triggers }) => !ends.has(id) && triggers.length === 0);
  const failing = nodes.filter(isFailing);
  return (
    <>
      {failing.length > 0 && (
        <section className="card" aria-labelledby="map-failing">
          <h2 id="map-failing">Failing</h2>
          <ul className="attention">
            {failing.slice(0, shown).map((node) => (
              <li key={node.id}>
                {kindName(node.kind)} <Name name={nameOf(node.id, node)} href={hrefOf(node.id, node)} />:{' '}
                {nodeTroubles(node).join(', ')}
              </li>
            ))}
          </ul>
        </section>
      )}
      <div className="card flush">
        <table className="flow-table">
          <caption className="off-screen">What goes from where to where</caption>
          <thead>
            <tr>
              <th scope="col">From</th>
              <th scope="col">What</th>
              <th scope="col">To</th>
              <th scope="col">Rate</th>
              <th scope="col">Failures</th>
              <th scope="col">Last</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, shown).map((row) => (
              <tr key={row.key} className={row.isFailing ? 'bad' : undefined}>
                <td>
                  <Name {...row.from} />
                </td>
                <td>
                  <bdi>{row.what}</bdi>
                </td>
                <td>
                  <Name {...row.to} />
                </td>
                <td>{row.figures === null ? '—' : rateWords(row.figures.per_minute)}</td>
                <td className={row.failures.length === 0 ? 'nothing' : undefined}>
                  {row.failures.length === 0 ? 'none' : row.failures.join(', ')}
                </td>
                <td className={row.figures?.last_at == null ? 'nothing' : undefined}>
                  {row.figures === null || row.figures.last_at === null ? (
                    '—'
                  ) : (
                    <Ago ms={row.figures.last_at * 1000} />
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length === 0 && <p className="muted">No subscription and no trigger is among what is shown.</p>}
      {rows.length > shown && (
        <p>
          <button type="button" className="button" onClick={() => setShown(shown + rowsStep)}>
            Show more of {formatNumber(rows.length)}
          </button>
        </p>
      )}
      {alone.length > 0 && (
        <section className="card" aria-labelledby="map-alone">
          <h2 id="map-alone">Connected to nothing</h2>
          <ul className="map-lines">
            {alone.slice(0, shown).map((node) => (
              <li key={node.id}>
                {kindName(node.kind)} <Name name={nameOf(node.id, node)} href={hrefOf(node.id, node)} />
                {node.emitted !== null && (
                  <span className="muted">, {rateWords(node.emitted.per_minute)}</span>
                )}
              </li>
            ))}
          </ul>
          {alone.length > shown && <p className="muted">and {formatNumber(alone.length - shown)} more</p>}
        </section>
      )}
    </>
  );
}

function Name({ name, href }: { name: string; href: string | undefined }) {
  return href === undefined ? (
    <bdi>{name}</bdi>
  ) : (
    <Link href={href}>
      <bdi>{name}</bdi>
    </Link>
  );
}

function hrefOf(id: string, node: FlowNode | undefined): string | undefined {
  return node?.name === null || node === undefined ? undefined : pageOf(id);
}

/** Failing first, then the busiest. */
function rowsOf(nodes: readonly FlowNode[], edges: readonly FlowEdge[]): Row[] {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const end = (id: string) => ({ name: nameOf(id, known.get(id)), href: hrefOf(id, known.get(id)) });
  const rows = [
    ...edges.map((edge) => ({
      key: edge.id,
      from: end(edge.emitter_id),
      what: channelWords(edge.event_name),
      to: end(edge.listener_id),
      figures: edge.deliveries,
      failures: edgeFailures(edge),
      isFailing: edge.failing,
    })),
    ...nodes.flatMap((node) =>
      node.triggers.map((trigger) => ({
        key: `${node.id} ${trigger.id}`,
        from: { name: triggerWords(trigger), href: undefined },
        what: 'runs',
        to: end(node.id),
        figures: trigger,
        failures: trigger.failed > 0 ? [`${trigger.failed} failed within the last hour`] : [],
        isFailing: trigger.failed > 0 && isFailing(node),
      })),
    ),
  ];
  return rows.sort(
    (a, b) =>
      Number(b.isFailing) - Number(a.isFailing) ||
      b.failures.length - a.failures.length ||
      (b.figures?.per_minute ?? 0) - (a.figures?.per_minute ?? 0) ||
      (a.key < b.key ? -1 : 1),
  );
}
