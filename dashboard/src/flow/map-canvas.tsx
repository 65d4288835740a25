import { type KeyboardEvent, memo, useCallback, useEffect, useRef, useState } from 'react';
import { Icon, type IconName } from '~/parts/icon.tsx';
import { shortened } from '~/parts/plain-text.ts';
import type { BoxFigures, LineFigures } from './figures.ts';
import type { Drawn, DrawnEdge, DrawnNode } from './graph.ts';
import { boxHeight, boxWidth, type Layout, type Place } from './layout.ts';
import { usePanZoom } from './pan-zoom.ts';
import { rateWords } from './words.ts';

/** What flows is shown moving while there are no more lines than this: each costs the browser work all the time. */
const movingLinesMax = 150;
const nameMax = 18;
/** Beside the sign that something is wrong. */
const failingNameMax = 15;
const detailMax = 30;

const kindIcons: Readonly<Record<DrawnNode['kind'], IconName>> = {
  source: 'source',
  workflow: 'workflow',
  webhook: 'webhook',
  all: 'source',
};

/** The looks of lines. */
const looks = ['quiet', 'busy', 'bad'] as const;

export interface CanvasProps {
  drawn: Drawn;
  layout: Layout;
  /** Identifies the chosen view. When it changes, the whole map is fitted into the window; not when nodes come or go. */
  fitKey: string;
  boxes: ReadonlyMap<string, BoxFigures>;
  lines: ReadonlyMap<string, LineFigures>;
  /** A box or a line. */
  chosen: string | undefined;
  /** Boxes that are searched for or connected to what is chosen; undefined: all are alike. */
  lit: ReadonlySet<string> | undefined;
  /** Brought into view, and given the keyboard, whenever it changes. */
  goTo: { id: string; turn: number } | undefined;
  onChoose: (id: string | undefined) => void;
}

/** The picture: boxes and lines that can be moved, zoomed, pressed, and walked through by arrow keys. */
export function MapCanvas({ drawn, layout, fitKey, boxes, lines, chosen, lit, goTo, onChoose }: CanvasProps) {
  const panZoom = usePanZoom();
  const [walked, setWalked] = useState<string>();
  const current =
    walked !== undefined && layout.places.has(walked)
      ? walked
      : chosen !== undefined && layout.places.has(chosen)
        ? chosen
        : firstOf(layout);
  const fitted = useRef<string>(undefined);
  useEffect(() => {
    if (layout.places.size === 0) return;
    // Nodes that come or go do not move the view that the user chose.
    if (fitted.current === fitKey && !panZoom.isWhole()) return;
    fitted.current = fitKey;
    panZoom.fit(layout);
  }, [layout, fitKey, panZoom]);
  const focusOn = useCallback(
    (id: string) =>
      panZoom.group.current
        ?.querySelector<SVGGElement>(`[data-box="${CSS.escape(id)}"]`)
        ?.focus({ preventScroll: true }),
    [panZoom],
  );
  const gone = useRef<typeof goTo>(undefined);
  useEffect(() => {
    if (goTo === undefined || goTo === gone.current) return;
    const place = layout.places.get(goTo.id);
    if (place === undefined) return;
    gone.current = goTo;
    setWalked(goTo.id);
    panZoom.show(place, true);
    focusOn(goTo.id);
  }, [goTo, layout, panZoom, focusOn]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '+' || event.key === '=') panZoom.zoom(1.25);
    else if (event.key === '-') panZoom.zoom(0.8);
    else if (event.key === '0') panZoom.fit(layout);
    else if (event.key === 'Escape') onChoose(undefined);
    else {
      const next = neighbour(drawn.edges, layout, current, event.key);
      if (next === undefined) return;
      setWalked(next);
      const place = layout.places.get(next);
      if (place !== undefined) panZoom.show(place);
      focusOn(next);
    }
    event.preventDefault();
  };
  const onBox = useCallback(
    (id: string) => {
      setWalked(id);
      onChoose(id);
    },
    [onChoose],
  );
  const isMoving = drawn.edges.length <= movingLinesMax;
  return (
    <div className="map-window card flush">
      {/* biome-ignore lint/a11y/useSemanticElements: it is a drawing. */}
      <svg
        ref={panZoom.svg}
        className={isMoving ? 'map moving' : 'map'}
        role="group"
        aria-label={`Flow map, ${drawn.nodes.length} boxes. Arrow keys go from box to box, Enter opens one, plus and minus zoom, 0 shows all.`}
        onKeyDown={onKeyDown}
      >
        <defs>
          {looks.map((look) => (
            <marker
              key={look}
              id={`map-arrow-${look}`}
              markerUnits="userSpaceOnUse"
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="10"
              markerHeight="10"
              orient="auto"
            >
              <path d="M0 0.5 7.5 4 0 7.5z" className={`map-arrow ${look}`} />
            </marker>
          ))}
        </defs>
        <g ref={panZoom.group}>
          {drawn.edges.map(({ id, from, to, isAside }) => {
            const start = layout.places.get(from);
            const end = layout.places.get(to);
            const figures = lines.get(id);
            if (start === undefined || end === undefined || figures === undefined) return null;
            return (
              <Line
                key={id}
                id={id}
                x1={start.x}
                y1={start.y}
                x2={end.x}
                y2={end.y}
                isAside={isAside}
                isChosen={chosen === id}
                isDim={lit !== undefined && !(lit.has(from) && lit.has(to))}
                rate={figures.perMinute}
                isFailing={figures.isFailing}
                label={figures.label}
                onChoose={onChoose}
              />
            );
          })}
          {drawn.nodes.map(({ id, kind, members }) => {
            const place = layout.places.get(id);
            const figures = boxes.get(id);
            if (place === undefined || figures === undefined) return null;
            return (
              <Box
                key={id}
                id={id}
                x={place.x}
                y={place.y}
                kind={kind}
                isGroup={members.length > 1}
                name={figures.name}
                detail={figures.detail}
                label={figures.label}
                isFailing={figures.isFailing}
                isOff={figures.isOff}
                isChosen={chosen === id}
                isDim={lit !== undefined && !lit.has(id)}
                isCurrent={current === id}
                onChoose={onBox}
              />
            );
          })}
        </g>
      </svg>
      <div className="map-zoom">
        <button type="button" className="button small" onClick={() => panZoom.zoom(1.25)}>
          <Icon name="plus" size={16} />
          <span className="off-screen">Zoom in</span>
        </button>
        <button type="button" className="button small" onClick={() => panZoom.zoom(0.8)}>
          <Icon name="minus" size={16} />
          <span className="off-screen">Zoom out</span>
        </button>
        <button type="button" className="button small" onClick={() => panZoom.fit(layout)}>
          Show all
        </button>
      </div>
    </div>
  );
}

const Box = memo(function Box({
  id,
  x,
  y,
  kind,
  isGroup,
  name,
  detail,
  label,
  isFailing,
  isOff,
  isChosen,
  isDim,
  isCurrent,
  onChoose,
}: {
  id: string;
  x: number;
  y: number;
  kind: DrawnNode['kind'];
  isGroup: boolean;
  name: string;
  detail: string;
  label: string;
  isFailing: boolean;
  isOff: boolean;
  isChosen: boolean;
  isDim: boolean;
  isCurrent: boolean;
  onChoose: (id: string) => void;
}) {
  const classes = ['map-box', kind];
  if (isFailing) classes.push('bad');
  if (isOff) classes.push('off');
  if (isChosen) classes.push('chosen');
  if (isDim) classes.push('dim');
  return (
    // biome-ignore lint/a11y/useSemanticElements: there are no buttons in a drawing.
    <g
      className={classes.join(' ')}
      transform={`translate(${x} ${y})`}
      role="button"
      tabIndex={isCurrent ? 0 : -1}
      aria-label={label}
      aria-pressed={isChosen}
      data-box={id}
      onClick={() => onChoose(id)}
      onKeyDown={(event) => {
        if (event.key !== 'Enter' && event.key !== ' ') return;
        event.preventDefault();
        onChoose(id);
      }}
    >
      <title>{label}</title>
      {isGroup && (
        <rect className="map-shape behind" x={6} y={6} width={boxWidth} height={boxHeight} rx={9} />
      )}
      <rect className="map-shape" width={boxWidth} height={boxHeight} rx={9} />
      <svg x={12} y={10} width={18} height={18} overflow="visible" aria-hidden="true" className="map-kind">
        <Icon name={kindIcons[kind]} size={18} />
      </svg>
      {/* Cut at its edge, however wide the letters are. */}
      <svg
        x={38}
        y={0}
        width={boxWidth - (isFailing ? 64 : 46)}
        height={boxHeight}
        aria-hidden="true"
        className="map-words"
      >
        <text className="map-name" x={0} y={22}>
          {shortened(name, isFailing ? failingNameMax : nameMax)}
        </text>
        <text className="map-detail" x={0} y={41}>
          {shortened(detail, detailMax)}
        </text>
      </svg>
      {isFailing && (
        <svg
          x={boxWidth - 27}
          y={9}
          width={18}
          height={18}
          overflow="visible"
          aria-hidden="true"
          className="map-warning"
        >
          <Icon name="warning" size={18} />
        </svg>
      )}
    </g>
  );
});

const Line = memo(function Line({
  id,
  x1,
  y1,
  x2,
  y2,
  isAside,
  isChosen,
  isDim,
  rate,
  isFailing,
  label,
  onChoose,
}: {
  id: string;
  x1: number;
  y1: number;
  x2: number;
  y2: number;
  isAside: boolean;
  isChosen: boolean;
  isDim: boolean;
  rate: number;
  isFailing: boolean;
  label: string;
  onChoose: (id: string) => void;
}) {
  const { path, middle } = curve({ x: x1, y: y1 }, { x: x2, y: y2 });
  const classes = ['map-line'];
  if (isAside) classes.push('aside');
  if (rate > 0) classes.push('busy');
  if (isFailing) classes.push('bad');
  if (isChosen) classes.push('chosen');
  if (isDim) classes.push('dim');
  return (
    // biome-ignore lint/a11y/useSemanticElements: there are no buttons in a drawing.
    <g
      className={classes.join(' ')}
      // By keyboard, lines are reached from their boxes and from the list.
      role="button"
      tabIndex={-1}
      aria-label={label}
      aria-pressed={isChosen}
      data-line={id}
      onClick={() => onChoose(id)}
      onKeyDown={(event) => {
        if (event.key === 'Enter') onChoose(id);
      }}
    >
      <title>{label}</title>
      <path d={path} className="map-hit" />
      <path
        d={path}
        className="map-way"
        strokeWidth={1.5 + Math.min(4, Math.log10(1 + rate))}
        markerEnd={`url(#map-arrow-${isFailing ? 'bad' : rate > 0 ? 'busy' : 'quiet'})`}
      />
      {rate > 0 && (
        <text className="map-rate" x={middle.x} y={middle.y - 6}>
          {rateWords(rate)}
        </text>
      )}
      {rate === 0 && isFailing && (
        <text className="map-rate" x={middle.x} y={middle.y - 6}>
          failing
        </text>
      )}
    </g>
  );
});

/** From the right side of one box to the left side of another; to the left it goes round. */
function curve(from: Place, to: Place): { path: string; middle: Place } {
  const start = { x: from.x + boxWidth, y: from.y + boxHeight / 2 };
  const end = { x: to.x, y: to.y + boxHeight / 2 };
  const isBack = end.x < start.x + 20;
  const reach = isBack ? 90 : Math.max(40, (end.x - start.x) / 2);
  const bow = isBack ? boxHeight + 30 : 0;
  const [a, b] = [
    { x: start.x + reach, y: start.y - bow },
    { x: end.x - reach, y: end.y - bow },
  ];
  return {
    path: `M${start.x} ${start.y}C${a.x} ${a.y} ${b.x} ${b.y} ${end.x - 1} ${end.y}`,
    middle: {
      x: (start.x + 3 * a.x + 3 * b.x + end.x) / 8,
      y: (start.y + 3 * a.y + 3 * b.y + end.y) / 8,
    },
  };
}

function firstOf({ places }: Layout): string | undefined {
  let first: [string, Place] | undefined;
  for (const entry of places)
    if (first === undefined || entry[1].y + entry[1].x < first[1].y + first[1].x) first = entry;
  return first?.[0];
}

const directions: Readonly<Record<string, readonly [number, number]>> = {
  ArrowRight: [1, 0],
  ArrowLeft: [-1, 0],
  ArrowDown: [0, 1],
  ArrowUp: [0, -1],
};

/**
 * The target of an arrow key: to the right and left along a line where there is one, else, as up and down, to the nearest box
 * in that direction.
 */
function neighbour(
  edges: readonly DrawnEdge[],
  { places }: Layout,
  from: string | undefined,
  key: string,
): string | undefined {
  const direction = directions[key];
  const start = from === undefined ? undefined : places.get(from);
  if (direction === undefined || start === undefined) return undefined;
  const [dx, dy] = direction;
  const connected = new Set(
    edges.flatMap((edge) =>
      dx === 1 && edge.from === from ? [edge.to] : dx === -1 && edge.to === from ? [edge.from] : [],
    ),
  );
  let best: { id: string; far: number; isConnected: boolean } | undefined;
  for (const [id, { x, y }] of places) {
    const along = (x - start.x) * dx + (y - start.y) * dy;
    const aside = Math.abs((x - start.x) * dy) + Math.abs((y - start.y) * dx);
    if (along <= 1) continue;
    const far = along + 2.5 * aside;
    const isConnected = connected.has(id);
    if (best?.isConnected === true && !isConnected) continue;
    if (best === undefined || far < best.far || isConnected !== best.isConnected)
      best = { id, far, isConnected };
  }
  return best?.id;
}
