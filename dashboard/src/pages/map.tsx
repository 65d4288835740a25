import { useCallback, useEffect, useMemo, useState } from 'react';
import { Link, useLocation, useSearch } from 'wouter';
import type { Flow } from '#sdk';
import { useFlow } from '~/api/flow-queries.ts';
import { useSources } from '~/api/queries.ts';
import { useMayWrite } from '~/api/rights.ts';
import { useProjects } from '~/api/workspace-queries.ts';
import { boxFigures, lineFigures } from '~/flow/figures.ts';
import { FlowList } from '~/flow/flow-list.tsx';
import { connectedTo, drawn as drawnOf, type Filter, filtered } from '~/flow/graph.ts';
import { layOut } from '~/flow/layout.ts';
import { MapCanvas } from '~/flow/map-canvas.tsx';
import { MapTools } from '~/flow/map-tools.tsx';
import { Panel } from '~/flow/panel.tsx';
import { nameOf } from '~/flow/words.ts';
import { Command } from '~/parts/copy.tsx';
import { formatNumber } from '~/parts/format.ts';
import { useOwner } from '~/parts/owner.tsx';
import { Empty, Loading, PageFrame } from '~/parts/page.tsx';
import { shortened, visible } from '~/parts/plain-text.ts';
import { Problem } from '~/parts/problem.tsx';
import { useSettled } from '~/parts/use-settled.ts';
import '~/style/map.css';

/** Below this width, the list is more useful than the picture. */
const narrowPx = 700;

/** Emitters and their listeners, as a picture or a list. `?focus=dc_…` starts at one object, `&owner=` names its owner. */
export function MapPage() {
  const { me, ownerId, choose } = useOwner();
  const asked = new URLSearchParams(useSearch());
  const [focus, setFocus] = useState(asked.get('focus') ?? undefined);
  const owner = asked.get('owner');
  const isOthers =
    owner !== null && owner !== ownerId && (owner === me.id || me.orgs?.some(({ id }) => id === owner));
  useEffect(() => {
    if (isOthers && owner !== null) choose(owner);
  }, [isOthers, owner, choose]);
  const flow = useFlow(ownerId, focus);
  const [isList, setList] = useState(() => window.innerWidth < narrowPx);
  return (
    <PageFrame
      title="Flow map"
      lead={flow.data !== undefined && <Lead flow={flow.data} />}
      actions={
        <>
          <Link href="/subscriptions" className="button">
            Subscriptions
          </Link>
          <button type="button" className="button" onClick={() => setList(!isList)}>
            {isList ? 'Show as a map' : 'Show as a list'}
          </button>
        </>
      }
    >
      {flow.error !== null && (
        <Problem error={flow.error} what="The map is not up to date." onRetry={() => void flow.refetch()} />
      )}
      {flow.data === undefined && flow.error === null && <Loading what="Loading the map" />}
      {flow.data !== undefined && flow.data.nodes.length === 0 && <NothingYet ownerId={ownerId} />}
      {flow.data !== undefined && flow.data.nodes.length > 0 && !isOthers && (
        <FlowMap key={ownerId} flow={flow.data} focus={focus} onFocus={setFocus} isList={isList} />
      )}
    </PageFrame>
  );
}

function Lead({ flow: { totals, truncated, nodes, edges } }: { flow: Flow }) {
  const all = totals.sources + totals.workflows + totals.webhooks;
  const count = (number: number, one: string) => `${formatNumber(number)} ${one}${number === 1 ? '' : 's'}`;
  return (
    <p className="muted">
      {[
        count(totals.sources, 'source'),
        count(totals.workflows, 'workflow'),
        count(totals.webhooks, 'webhook'),
        count(totals.subscriptions, 'subscription'),
      ].join(', ')}
      .
      {truncated && (
        <>
          {' '}
          Shown are {formatNumber(nodes.length)} of {formatNumber(all)} things and{' '}
          {formatNumber(edges.length)} of the subscriptions: what fails and what had traffic last.
        </>
      )}
    </p>
  );
}

function NothingYet({ ownerId }: { ownerId: string }) {
  const owner = ownerId.startsWith('o_') ? `, "org_id": "${ownerId}"` : '';
  return (
    <Empty title="Nothing flows yet">
      <p>
        Here events are seen on their way, from sources through workflows to webhooks.{' '}
        <Link href="/sources/new">Create a source</Link>, then <Link href="/subscriptions">subscribe</Link>{' '}
        something to it. Or begin in a terminal:
      </p>
      <Command
        text={`curl -X POST ${window.location.origin}/v1/sources/ -H "Authorization: Bearer $KEY" \\\n  -H 'content-type: application/json' -d '{"key": "http-new-requests-payload-only", "name": "inbox"${owner}}'`}
      />
    </Empty>
  );
}

const everything: Filter = { kind: '', project: '', failing: false };
const none: ReadonlySet<string> = new Set();

/**
 * Which objects of an incomplete answer are shown: those of the first answer, until the user asks for more, since the busiest
 * ones differ each time. Figures are always the newest.
 */
function useSteady(
  flow: Flow,
  focus: string | undefined,
): { steady: Flow; isOld: boolean; renew: () => void } {
  const [kept, setKept] = useState({ flow, focus });
  const isSteady = flow.truncated && kept.flow.truncated && kept.focus === focus;
  if (!isSteady && kept.flow !== flow) setKept({ flow, focus });
  const ids = useMemo(() => new Set(kept.flow.nodes.map(({ id }) => id)), [kept]);
  const isOld = isSteady && flow.nodes.some(({ id }) => !ids.has(id));
  return { steady: isSteady ? kept.flow : flow, isOld, renew: () => setKept({ flow, focus }) };
}

function FlowMap({
  flow,
  focus,
  onFocus,
  isList,
}: {
  flow: Flow;
  focus: string | undefined;
  onFocus: (id: string) => void;
  isList: boolean;
}) {
  const { ownerId } = useOwner();
  const [, navigate] = useLocation();
  const mayWrite = useMayWrite(ownerId) === true;
  const projects = useProjects(ownerId).data ?? [];
  const [filter, setFilter] = useState(everything);
  const [words, setWords] = useState('');
  const [grouped, setGrouped] = useState(true);
  const [opened, setOpened] = useState(none);
  const [apart, setApart] = useState<ReadonlySet<string>>(() => new Set(focus === undefined ? [] : [focus]));
  const [chosen, setChosen] = useState(focus);
  const [goTo, setGoTo] = useState(() => (focus === undefined ? undefined : { id: focus, turn: 0 }));
  const { steady, isOld, renew } = useSteady(flow, focus);

  const known = useMemo(
    () => ({
      nodes: new Map([...steady.nodes, ...flow.nodes].map((node) => [node.id, node])),
      edges: new Map([...steady.edges, ...flow.edges].map((edge) => [edge.id, edge])),
    }),
    [steady, flow],
  );
  const shown = useMemo(
    () =>
      filtered(
        steady.nodes.map((node) => known.nodes.get(node.id) ?? node),
        steady.edges.map((edge) => known.edges.get(edge.id) ?? edge),
        filter,
      ),
    [steady, known, filter],
  );
  // Each answer has new figures; the picture is laid out again only when other objects are in it.
  const shape = [...shown.nodes, ...shown.edges]
    .map(({ id }) => id)
    .sort()
    .join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` says all of `shown` that matters here.
  const drawn = useMemo(
    () => drawnOf(shown.nodes, shown.edges, { grouped, opened, apart }),
    [shape, grouped, opened, apart],
  );
  const layout = useMemo(() => layOut(drawn.nodes, drawn.edges), [drawn]);
  const boxes = useMemo(() => boxFigures(drawn, known), [drawn, known]);
  const lines = useMemo(() => lineFigures(drawn, known, boxes), [drawn, known, boxes]);

  const wanted = words.trim().toLowerCase();
  const found = useMemo(
    () =>
      wanted === ''
        ? undefined
        : shown.nodes
            .filter(
              (node) =>
                node.id.toLowerCase() === wanted || nameOf(node.id, node).toLowerCase().includes(wanted),
            )
            .map(({ id }) => id),
    [wanted, shown],
  );
  const chosenBox = chosen === undefined ? undefined : (drawn.boxOf.get(chosen) ?? chosen);
  const lit = useMemo(() => {
    const line = drawn.edges.find(({ id }) => id === chosenBox);
    const around =
      line !== undefined
        ? [line.from, line.to]
        : chosenBox !== undefined && drawn.nodes.some(({ id }) => id === chosenBox)
          ? connectedTo(chosenBox, drawn.edges)
          : undefined;
    if (found === undefined) return around === undefined ? undefined : new Set(around);
    return new Set([...(around ?? []), ...found.flatMap((id) => drawn.boxOf.get(id) ?? [])]);
  }, [found, chosenBox, drawn]);

  const onChoose = useCallback(
    (id: string | undefined) => {
      setChosen(id);
      const isThing = id !== undefined && /^(dc|p|wh)_\w+$/.test(id);
      navigate(isThing ? `/map?focus=${encodeURIComponent(id)}` : '/map', { replace: true });
    },
    [navigate],
  );
  const goToThing = (id: string) => {
    setApart((known) => new Set([...known, id]));
    onChoose(id);
    setGoTo((before) => ({ id, turn: (before?.turn ?? 0) + 1 }));
  };
  const show = (id: string) => {
    setWords('');
    setFilter(everything);
    onFocus(id);
    goToThing(id);
  };
  return (
    <>
      <MapTools
        filter={filter}
        onFilter={setFilter}
        words={words}
        onWords={setWords}
        found={found}
        onNext={goToThing}
        projects={projects}
        grouped={grouped}
        onGrouped={isList ? undefined : setGrouped}
      />
      {found?.length === 0 && <Elsewhere words={words.trim()} isTruncated={flow.truncated} onShow={show} />}
      {isOld && (
        <p className="note">
          Others are busier now.{' '}
          <button type="button" className="link" onClick={renew}>
            Show those
          </button>
        </p>
      )}
      {shown.nodes.length === 0 ? (
        <Empty title={filter.failing ? 'Nothing fails' : 'Nothing of this kind'}>
          <p>
            <button type="button" className="button" onClick={() => setFilter(everything)}>
              Show everything
            </button>
          </p>
        </Empty>
      ) : isList ? (
        <FlowList nodes={listed(shown.nodes, found)} edges={listedEdges(shown.edges, found)} />
      ) : (
        <div
          className={chosenBox === undefined || !isShown(chosenBox, drawn) ? 'map-split' : 'map-split two'}
        >
          <MapCanvas
            drawn={drawn}
            layout={layout}
            fitKey={JSON.stringify([filter, grouped])}
            boxes={boxes}
            lines={lines}
            chosen={chosenBox}
            lit={lit}
            goTo={goTo}
            onChoose={onChoose}
          />
          {chosenBox !== undefined && (
            <Panel
              drawn={drawn}
              known={known}
              chosen={chosenBox}
              mayWrite={mayWrite}
              onChoose={onChoose}
              onOpen={(group) => {
                setOpened((known) => new Set([...known, group]));
                onChoose(undefined);
              }}
              onGoTo={goToThing}
            />
          )}
        </div>
      )}
    </>
  );
}

function isShown(id: string, { nodes, edges }: ReturnType<typeof drawnOf>): boolean {
  return nodes.some((node) => node.id === id) || edges.some((edge) => edge.id === id);
}

function listed(
  nodes: Flow['nodes'] | readonly Flow['nodes'][number][],
  found: readonly string[] | undefined,
) {
  return found === undefined ? nodes : nodes.filter(({ id }) => found.includes(id));
}

function listedEdges(edges: readonly Flow['edges'][number][], found: readonly string[] | undefined) {
  return found === undefined
    ? edges
    : edges.filter(
        ({ emitter_id, listener_id }) => found.includes(emitter_id) || found.includes(listener_id),
      );
}

/** The map has only the busiest of thousands of sources: others are found by name. */
function Elsewhere({
  words,
  isTruncated,
  onShow,
}: {
  words: string;
  isTruncated: boolean;
  onShow: (id: string) => void;
}) {
  const { ownerId } = useOwner();
  const sources = useSources(ownerId, useSettled(words));
  const others = isTruncated ? (sources.data?.pages[0]?.data.slice(0, 5) ?? []) : [];
  return (
    <div className="note" role="status">
      Nothing on the map is called so.
      {others.length > 0 && (
        <>
          {' '}
          Among all sources there {others.length === 1 ? 'is' : 'are'}:{' '}
          {others.map(({ id, name }) => (
            <button key={id} type="button" className="button small" onClick={() => onShow(id)}>
              <bdi>{visible(shortened(name, 60))}</bdi>
            </button>
          ))}
        </>
      )}
    </div>
  );
}
