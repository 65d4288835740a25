import { Link } from 'wouter';
import type { FlowEdge, FlowFigures, FlowNode } from '#sdk';
import { Ago } from '~/parts/ago.tsx';
import { CopyButton } from '~/parts/copy.tsx';
import { formatNumber } from '~/parts/format.ts';
import { HealthBadge, HealthNote } from '~/parts/health.tsx';
import { Icon } from '~/parts/icon.tsx';
import type { Known } from './figures.ts';
import type { Drawn, DrawnEdge, DrawnNode } from './graph.ts';
import { Latest, LatestDeliveries } from './latest.tsx';
import { edgeFailures, isFailing } from './troubles.ts';
import {
  channelWords,
  edgeRate,
  kindName,
  kindNames,
  nameOf,
  pageOf,
  rateWords,
  triggerWords,
} from './words.ts';

/** Maximum of entries of a list in a panel. */
const listedMax = 50;
/** Subscriptions of one line that are shown. */
const subscriptionsMax = 5;

export interface PanelProps {
  drawn: Drawn;
  known: Known;
  /** The id of a box or a line. */
  chosen: string;
  mayWrite: boolean;
  onChoose: (id: string | undefined) => void;
  /** Draws the members of a group. */
  onOpen: (group: string) => void;
  /** Shows one object, in a box of its own. */
  onGoTo: (id: string) => void;
}

/** What is chosen on the map: its figures, its last events and failures, and the way to its page. */
export function Panel(props: PanelProps) {
  const { drawn, chosen } = props;
  const line = drawn.edges.find(({ id }) => id === chosen);
  const box = drawn.nodes.find(({ id }) => id === chosen);
  if (line !== undefined) return <LinePanel key={chosen} {...props} line={line} />;
  if (box === undefined) return null;
  return box.members.length > 1 ? (
    <GroupPanel key={chosen} {...props} box={box} />
  ) : (
    <ThingPanel key={chosen} {...props} />
  );
}

function Frame({
  name,
  kind,
  onClose,
  children,
}: {
  name: string;
  kind: string;
  onClose: () => void;
  children: React.ReactNode;
}) {
  return (
    <aside className="card map-panel" aria-label={`${kind} ${name}`}>
      <header className="detail-head">
        <div className="map-panel-title">
          <span className="muted">{kind}</span>
          <h2>
            <bdi>{name}</bdi>
          </h2>
        </div>
        <button type="button" className="button quiet small" onClick={onClose}>
          <Icon name="close" size={16} />
          Close
        </button>
      </header>
      {children}
    </aside>
  );
}

/** Past failures of a listener that is healthy again are no reason for alarm. */
function Failures({ failures, isFailing: isBad }: { failures: readonly string[]; isFailing: boolean }) {
  if (failures.length === 0) return null;
  return (
    <ul className={isBad ? 'attention' : 'muted'}>
      {failures.map((failure) => (
        <li key={failure}>{failure}</li>
      ))}
    </ul>
  );
}

function Figures({ name, figures }: { name: string; figures: FlowFigures }) {
  return (
    <div>
      <dt className="muted">{name}</dt>
      <dd>
        {rateWords(figures.per_minute)}
        {figures.failed > 0 && <span className="bad-text">, {figures.failed} failed</span>}
        {figures.last_at !== null && (
          <span className="muted">
            , last <Ago ms={figures.last_at * 1000} />
          </span>
        )}
      </dd>
    </div>
  );
}

function ThingPanel({ drawn, known, chosen, onChoose }: PanelProps) {
  const node = known.nodes.get(chosen);
  const name = nameOf(chosen, node);
  const page = node?.name === null ? undefined : pageOf(chosen);
  const into = drawn.edges.filter(({ to }) => to === chosen);
  const out = drawn.edges.filter(({ from }) => from === chosen);
  return (
    <Frame
      name={name}
      kind={node === undefined ? '' : kindName(node.kind)}
      onClose={() => onChoose(undefined)}
    >
      {node !== undefined && (
        <>
          <p className="facts">
            {node.health !== null && <HealthBadge health={node.health} />}
            <span className="with-copy">
              <code>{chosen}</code>
              <CopyButton text={chosen} label="Copy the id" />
            </span>
          </p>
          {page !== undefined && (
            <p>
              <Link href={page} className="button">
                Open this {node.kind}
              </Link>
            </p>
          )}
          {node.kind === 'all' && (
            <p className="muted">
              A subscription to everything of a kind, also to what is made later. It stands for its emitters:
              what is drawn here is what they send along it.
            </p>
          )}
          {node.name === null && node.kind !== 'all' && (
            <p className="muted">It belongs to another owner: only its id is known here.</p>
          )}
          {node.health !== null && node.kind !== 'all' && (
            <HealthNote kind={node.kind} id={chosen} health={node.health} />
          )}
          <ThingLinks node={node} />
          <dl className="map-figures">
            {node.runs !== null && <Figures name="Runs" figures={node.runs} />}
            {node.emitted !== null && <Figures name="Emits" figures={node.emitted} />}
            {node.triggers.map((trigger) => (
              <Figures key={trigger.id} name={`Started by ${triggerWords(trigger)}`} figures={trigger} />
            ))}
          </dl>
        </>
      )}
      <Lines name="Gets" lines={into} end="from" known={known} drawn={drawn} onChoose={onChoose} />
      <Lines name="Goes to" lines={out} end="to" known={known} drawn={drawn} onChoose={onChoose} />
      {node?.emitted === null && into.length === 0 && (
        <p className="muted">Nothing is sent to it: no subscription leads here.</p>
      )}
      {node !== undefined && node.name !== null && <Latest node={node} />}
    </Frame>
  );
}

/** Links from a problem to the page where it is fixed. */
function ThingLinks({ node }: { node: FlowNode }) {
  const { id, kind } = node;
  return (
    <p className="facts">
      {kind === 'source' && (node.emitted?.failed ?? 0) > 0 && (
        <Link href={`/sources/${id}?tab=logs`}>Its errors, with the line of code</Link>
      )}
      {kind === 'workflow' && (node.runs?.failed ?? 0) > 0 && (
        <Link href={`/workflows/${id}?state=failed`}>Its failed runs</Link>
      )}
      {node.dead_letters > 0 && (
        <Link href={kind === 'webhook' ? `/webhooks/${id}` : '/dead-letters'}>
          {formatNumber(node.dead_letters)} {node.dead_letters === 1 ? 'dead letter' : 'dead letters'}
        </Link>
      )}
      {node.unhealthy_accounts > 0 && (
        <Link href="/accounts">
          {formatNumber(node.unhealthy_accounts)} failing{' '}
          {node.unhealthy_accounts === 1 ? 'account' : 'accounts'}
        </Link>
      )}
    </p>
  );
}

function Lines({
  name,
  lines,
  end,
  known,
  drawn,
  onChoose,
}: {
  name: string;
  lines: readonly DrawnEdge[];
  end: 'from' | 'to';
  known: Known;
  drawn: Drawn;
  onChoose: (id: string) => void;
}) {
  if (lines.length === 0) return null;
  const sums = lines.map((line) => {
    const edges = line.subscriptions.flatMap((id) => known.edges.get(id) ?? []);
    return {
      line,
      rate: edges.reduce((sum, edge) => sum + edgeRate(edge), 0),
      isFailing: edges.some(({ failing }) => failing),
      channels: [...new Set(edges.map(({ event_name }) => channelWords(event_name)))].slice(0, 3).join(', '),
    };
  });
  sums.sort((a, b) => Number(b.isFailing) - Number(a.isFailing) || b.rate - a.rate);
  return (
    <section aria-label={name}>
      <h3>{name}</h3>
      <ul className="map-lines">
        {sums.slice(0, listedMax).map(({ line, rate, isFailing: isBad, channels }) => (
          <li key={line.id}>
            <button type="button" className="link" onClick={() => onChoose(line.id)}>
              <bdi>{boxName(line[end], drawn, known)}</bdi>
            </button>{' '}
            <span className="muted">
              {channels}, {rateWords(rate)}
            </span>
            {isBad && <span className="bad-text"> failing</span>}
          </li>
        ))}
      </ul>
      {lines.length > listedMax && (
        <p className="muted">and {formatNumber(lines.length - listedMax)} more: the list has them all</p>
      )}
    </section>
  );
}

function boxName(id: string, drawn: Drawn, known: Known): string {
  const box = drawn.nodes.find((one) => one.id === id);
  if (box !== undefined && box.members.length > 1) return `${box.members.length} ${kindNames(box.kind)}`;
  return nameOf(id, known.nodes.get(id));
}

function GroupPanel({
  box,
  drawn,
  known,
  chosen,
  onChoose,
  onOpen,
  onGoTo,
}: PanelProps & { box: DrawnNode }) {
  const members = box.members.map((id) => ({ id, node: known.nodes.get(id) }));
  const isBad = (node: FlowNode | undefined) => node !== undefined && isFailing(node);
  members.sort((a, b) => Number(isBad(b.node)) - Number(isBad(a.node)));
  return (
    <Frame
      name={`${box.members.length} ${kindNames(box.kind)}`}
      kind="Connected alike"
      onClose={() => onChoose(undefined)}
    >
      <p>
        <button type="button" className="button" onClick={() => onOpen(chosen)}>
          Draw each of them
        </button>
      </p>
      <Lines
        name="Get"
        lines={drawn.edges.filter(({ to }) => to === chosen)}
        {...{ end: 'from', known, drawn, onChoose }}
      />
      <Lines
        name="Go to"
        lines={drawn.edges.filter(({ from }) => from === chosen)}
        {...{ end: 'to', known, drawn, onChoose }}
      />
      <section aria-label="Members">
        <h3>Members</h3>
        <ul className="map-lines">
          {members.slice(0, listedMax).map(({ id, node }) => (
            <li key={id}>
              <button type="button" className="link" onClick={() => onGoTo(id)}>
                <bdi>{nameOf(id, node)}</bdi>
              </button>
              {isBad(node) && <span className="bad-text"> failing</span>}
            </li>
          ))}
        </ul>
        {members.length > listedMax && (
          <p className="muted">and {formatNumber(members.length - listedMax)} more: find them by name</p>
        )}
      </section>
    </Frame>
  );
}

function LinePanel({ line, drawn, known, mayWrite, onChoose }: PanelProps & { line: DrawnEdge }) {
  const edges = line.subscriptions.flatMap((id) => known.edges.get(id) ?? []);
  edges.sort((a, b) => Number(b.failing) - Number(a.failing) || edgeRate(b) - edgeRate(a));
  const ends = [line.from, line.to].map((id) => boxName(id, drawn, known));
  return (
    <Frame name={ends.join(' → ')} kind="Subscription" onClose={() => onChoose(undefined)}>
      <p className="facts">
        {[line.from, line.to].map((id, index) => (
          <button key={id} type="button" className="link" onClick={() => onChoose(id)}>
            {index === 0 ? 'The emitter' : 'The listener'}
          </button>
        ))}
        <Link href="/subscriptions">All subscriptions</Link>
      </p>
      {edges.slice(0, subscriptionsMax).map((edge) => (
        <Subscribed
          key={edge.id}
          edge={edge}
          known={known}
          isOneOfMany={line.subscriptions.length > 1}
          mayWrite={mayWrite}
        />
      ))}
      {edges.length > subscriptionsMax && (
        <p className="muted">
          and {formatNumber(edges.length - subscriptionsMax)} more: the list has them all
        </p>
      )}
    </Frame>
  );
}

function Subscribed({
  edge,
  known,
  isOneOfMany,
  mayWrite,
}: {
  edge: FlowEdge;
  known: Known;
  isOneOfMany: boolean;
  mayWrite: boolean;
}) {
  const listener = known.nodes.get(edge.listener_id);
  const page = listener?.name === null ? undefined : pageOf(edge.listener_id);
  return (
    <section className="map-subscription" aria-label={`Subscription ${edge.id}`}>
      <h3>
        <bdi>
          {isOneOfMany && `${nameOf(edge.emitter_id, known.nodes.get(edge.emitter_id))}: `}
          {channelWords(edge.event_name)}
        </bdi>
      </h3>
      <p className="muted">
        <code>{edge.id}</code>
      </p>
      {edge.deliveries === null ? (
        <p className="muted">The listener belongs to another owner, and so does what reaches it.</p>
      ) : (
        <>
          <dl className="map-figures">
            <Figures name="Delivers" figures={edge.deliveries} />
          </dl>
          <Failures failures={edgeFailures(edge)} isFailing={edge.failing} />
          {edge.dead_letters > 0 && page !== undefined && (
            <p>
              <Link href={edge.listener_id.startsWith('wh_') ? page : '/dead-letters'}>
                Its dead letters: read them, deliver them again
              </Link>
            </p>
          )}
          <LatestDeliveries id={edge.id} hasFailures={edgeFailures(edge).length > 0} mayWrite={mayWrite} />
        </>
      )}
    </section>
  );
}
