import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Health } from '#sdk';
import { connectedTo, drawn, filtered } from '../dashboard/src/flow/graph.ts';
import { boxHeight, boxWidth, type Layout, layOut } from '../dashboard/src/flow/layout.ts';

type Kind = 'source' | 'workflow' | 'webhook' | 'all';

const kindOf = (id: string): Kind =>
  id.startsWith('p_') ? 'workflow' : id.startsWith('wh_') ? 'webhook' : id.endsWith('*') ? 'all' : 'source';

const nodesOf = (ids: readonly string[]) => ids.map((id) => ({ id, kind: kindOf(id) }));
const edge = (emitter_id: string, listener_id: string, event_name = '') => ({
  ...{ id: `sub_${emitter_id}_${listener_id}_${event_name}`, emitter_id, listener_id, event_name },
});
const none: ReadonlySet<string> = new Set();
const alone = { grouped: false, opened: none, apart: none };

function expectNothingOverlaps({ places }: Layout): void {
  const all = [...places];
  for (const [index, [a, one]] of all.entries())
    for (const [b, other] of all.slice(index + 1))
      assert.ok(
        Math.abs(one.x - other.x) >= boxWidth || Math.abs(one.y - other.y) >= boxHeight,
        `${a} is over ${b}`,
      );
}

const placeOf = ({ places }: Layout, id: string) => places.get(id) ?? assert.fail(`${id} has no place`);

test('what flows goes from left to right, also round a circle', () => {
  const { nodes, edges } = drawn(
    nodesOf(['dc_1', 'p_1', 'p_2', 'wh_1']),
    [edge('dc_1', 'p_1'), edge('p_1', 'p_2'), edge('p_2', 'p_1'), edge('p_2', 'wh_1')],
    alone,
  );
  const layout = layOut(nodes, edges);
  const xs = ['dc_1', 'p_1', 'p_2', 'wh_1'].map((id) => placeOf(layout, id).x);
  assert.deepEqual(
    xs,
    [...xs].sort((a, b) => a - b),
  );
  assert.equal(new Set(xs).size, 4);
  expectNothingOverlaps(layout);
});

test('a map of 300 boxes and 600 lines is laid out without overlaps, the same each time, in bounded time', () => {
  const ids = Array.from({ length: 300 }, (_, n) => (n < 150 ? `dc_${n}` : n < 230 ? `p_${n}` : `wh_${n}`));
  let seed = 7;
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * below);
  };
  const edges = Array.from({ length: 600 }, () => edge(`${ids[random(230)]}`, `${ids[150 + random(150)]}`));
  const before = process.cpuUsage();
  const graph = drawn(nodesOf(ids), edges, alone);
  const layout = layOut(graph.nodes, graph.edges);
  const { user, system } = process.cpuUsage(before);
  const tookMs = (user + system) / 1000;
  assert.equal(layout.places.size, 300);
  expectNothingOverlaps(layout);
  const again = drawn(nodesOf([...ids].reverse()), [...edges].reverse(), alone);
  assert.deepEqual([...layOut(again.nodes, again.edges).places].sort(), [...layout.places].sort());
  assert.ok(layout.width < 4 * layout.height && layout.height < 4 * layout.width, 'it fits into a window');
  assert.ok(tookMs < 2_000, `it took ${tookMs} ms of CPU time`);
});

test('many things that are connected alike are one box, until it is opened', () => {
  const sources = Array.from({ length: 60 }, (_, n) => `dc_${n}`);
  const nodes = nodesOf([...sources, 'dc_other', 'wh_1', 'wh_2']);
  const edges = [...sources.map((id) => edge(id, 'wh_1')), edge('dc_other', 'wh_2')];
  const grouped = drawn(nodes, edges, { ...alone, grouped: true });
  assert.deepEqual(
    grouped.nodes.map(({ members }) => members.length).sort((a, b) => a - b),
    [1, 1, 1, 60],
  );
  assert.deepEqual(
    grouped.edges.map(({ subscriptions }) => subscriptions.length).sort((a, b) => a - b),
    [1, 60],
  );
  const group = grouped.nodes.find(({ members }) => members.length === 60)?.id ?? '';
  assert.equal(drawn(nodes, edges, { ...alone, grouped: true, opened: new Set([group]) }).nodes.length, 63);
  const apart = new Set(['dc_7']);
  assert.equal(drawn(nodes, edges, { grouped: true, opened: none, apart }).boxOf.get('dc_7'), 'dc_7');
  assert.equal(drawn(nodes, edges, alone).nodes.length, 63);
});

test('several subscriptions between two things are one line', () => {
  const { edges } = drawn(
    nodesOf(['dc_1', 'wh_1', 'wh_2']),
    [edge('dc_1', 'wh_1'), edge('dc_1', 'wh_1', '$errors'), edge('dc_1', 'wh_2', '$errors')],
    alone,
  );
  assert.deepEqual(
    edges.map(({ to, subscriptions, isAside }) => [to, subscriptions.length, isAside]),
    [
      ['wh_1', 2, false],
      ['wh_2', 1, true],
    ],
  );
  assert.deepEqual([...connectedTo('wh_1', edges)].sort(), ['dc_1', 'wh_1']);
});

test('a filter leaves what it is about, and what that is connected to', () => {
  const nothing = { per_minute: 0, failed: 0, last_at: null };
  const well: Health = { state: 'healthy', since: 1, reason: null, failures: 0, waiting: 0 };
  const failing: Health = { state: 'failing', since: 1, reason: 'HTTP 500', failures: 1, waiting: 0 };
  const whole = (
    id: string,
    other: { project_id?: string; emitted?: typeof nothing; health?: Health } = {},
  ) => ({
    ...{
      id,
      kind: kindOf(id),
      name: id,
      state: 'active' as const,
      health: well,
      project_id: null,
    },
    ...{ emitted: nothing, runs: null, triggers: [], unhealthy_accounts: 0, dead_letters: 0 },
    ...other,
  });
  const nodes = [
    whole('dc_1'),
    // It failed within the last hour, and works again.
    whole('dc_2', { emitted: { ...nothing, failed: 3 } }),
    whole('p_1', { project_id: 'proj_1' }),
    whole('wh_1', { health: failing }),
  ];
  const edges = [
    { ...edge('dc_1', 'p_1'), deliveries: { ...nothing, failed: 2 }, dead_letters: 1, failing: false },
    { ...edge('dc_1', 'wh_1'), deliveries: nothing, dead_letters: 1, failing: true },
  ];
  const left = (filter: Partial<Parameters<typeof filtered>[2]>) =>
    filtered(nodes, edges, { kind: '', project: '', failing: false, ...filter }).nodes.map(({ id }) => id);
  assert.deepEqual(left({}), ['dc_1', 'dc_2', 'p_1', 'wh_1']);
  assert.deepEqual(left({ failing: true }), ['dc_1', 'wh_1']);
  assert.deepEqual(left({ project: 'proj_1' }), ['dc_1', 'p_1']);
  assert.deepEqual(left({ kind: 'webhook' }), ['dc_1', 'wh_1']);
});
