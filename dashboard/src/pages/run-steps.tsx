import { type ReactNode, useMemo, useState } from 'react';
import type { RunDetail, RunStep, WorkflowStep } from '#sdk';
import { isOver } from '~/api/workflow-queries.ts';
import type { PartNode } from '~/editing/blocks.ts';
import {
  type FindTries,
  type ItemState,
  isSequenceOver,
  isTaken,
  itemIteration,
  itemState,
  itemsOf,
  type ShownNode,
  type ShownStep,
  shownSteps,
  triesOf,
  unfinishedState,
} from '~/editing/run-tree.ts';
import { PartHead } from '~/parts/block-parts.tsx';
import { formatClock, formatDuration } from '~/parts/format.ts';
import { JsonView } from '~/parts/json-view.tsx';
import { LogLines } from '~/parts/log-lines.tsx';
import { oneLine, visible } from '~/parts/plain-text.ts';
import { RunState } from '~/parts/run-state.tsx';
import { StackView } from '~/parts/stack-view.tsx';
import { codeOf, StepKind } from '~/parts/step-parts.tsx';

/** What every step of a run is drawn with. */
interface Drawn {
  run: RunDetail;
  tries: FindTries;
  /** Epoch ms: the length of the bars. */
  fromMs: number;
  toMs: number;
}

/** The steps of the version that was run, those in blocks within them, also those it did not come to, each with its tries. */
export function RunSteps({
  run,
  steps,
  now,
}: {
  run: RunDetail;
  steps: readonly WorkflowStep[] | undefined;
  now: number;
}) {
  const nodes = useMemo(() => shownSteps(run, steps), [run, steps]);
  const tries = useMemo(() => triesOf(run), [run]);
  const fromMs = run.steps.reduce((first, one) => Math.min(first, Date.parse(one.started_at)), Infinity);
  const toMs = run.steps.reduce(
    (last, one) => Math.max(last, Date.parse(one.ended_at)),
    Math.max(fromMs + 1, isOver(run) ? 0 : now),
  );
  return (
    <section aria-labelledby="steps">
      <h2 id="steps">Steps</h2>
      <Sequence
        drawn={{ run, tries, fromMs, toMs }}
        nodes={nodes}
        iteration=""
        isAtWork={run.state === 'running'}
      />
    </section>
  );
}

/** Steps that run one after the other: of the workflow, of a branch, or for one item. */
function Sequence({
  drawn,
  nodes,
  iteration,
  isAtWork,
}: {
  drawn: Drawn;
  nodes: readonly ShownNode[];
  iteration: string;
  /** The first step that has not ended runs now. */
  isAtWork: boolean;
}) {
  const { tries } = drawn;
  const next = isAtWork
    ? nodes.findIndex(
        (node) => node.step.step?.disabled !== true && !isSequenceOver([node], iteration, tries),
      )
    : -1;
  const hasFailed = nodes.some(({ position }) => tries(position, iteration).at(-1)?.state === 'caught');
  return (
    <ol className="run-steps">
      {nodes.map((node, index) => (
        <li key={node.position} className="card">
          <Step drawn={drawn} node={node} iteration={iteration} isNext={index === next && !hasFailed} />
        </li>
      ))}
    </ol>
  );
}

function Step({
  drawn,
  node,
  iteration,
  isNext,
}: {
  drawn: Drawn;
  node: ShownNode;
  iteration: string;
  isNext: boolean;
}) {
  const { run } = drawn;
  const tries = drawn.tries(node.position, iteration);
  return (
    <>
      <Head
        node={node}
        tries={tries}
        state={stateOf(drawn, { node, iteration, isNext })}
        fromMs={drawn.fromMs}
        toMs={drawn.toMs}
      />
      {tries.map((one, index) => (
        <Try
          key={`${one.try} ${one.started_at}`}
          record={one}
          step={node.step.step}
          name={tries.length === 1 ? undefined : tryName(one, index, tries.length)}
          isAtFault={one === tries.at(-1) && run.error?.namespace === one.namespace && one.state === 'failed'}
        />
      ))}
      {node.parts.map((part) => (
        <BlockPart
          key={`${part.kind} ${part.slug}`}
          drawn={drawn}
          node={node}
          part={part}
          iteration={iteration}
          isAtWork={isNext}
        />
      ))}
    </>
  );
}

/** A branch with its steps, or the items of a map. */
function BlockPart({
  drawn,
  node,
  part,
  iteration,
  isAtWork,
}: {
  drawn: Drawn;
  node: ShownNode;
  part: PartNode<ShownStep>;
  iteration: string;
  isAtWork: boolean;
}) {
  const { tries, run } = drawn;
  const taken = isTaken(node, part, { iteration, tries });
  const items = part.kind === 'each' ? itemsOf(node, iteration, tries) : undefined;
  const isSkipped = taken === false || (part.kind === 'error' && taken === undefined);
  const word = isSkipped
    ? part.kind === 'branch'
      ? 'Not taken'
      : isOver(run)
        ? 'Not run'
        : undefined
    : taken === undefined
      ? 'Not reached'
      : undefined;
  return (
    <div className={word === undefined && !isSkipped ? 'edit-part' : 'edit-part not-taken'}>
      <PartHead blockKind={node.step.step?.block?.block} part={part}>
        {word !== undefined && <span className="state off">{word}</span>}
        {items !== undefined && (
          <span className="muted">{items.length === 1 ? '1 item' : `${items.length} items`}</span>
        )}
      </PartHead>
      {items !== undefined && (
        <Items
          drawn={drawn}
          node={node}
          part={part}
          iteration={iteration}
          items={items}
          isAtWork={isAtWork}
        />
      )}
      {taken === true && items === undefined && (
        <Sequence drawn={drawn} nodes={part.nodes} iteration={iteration} isAtWork={isAtWork} />
      )}
    </div>
  );
}

/** Items that are shown before the user asks for all. */
const itemsShown = 20;
const itemsMore = 200;
const itemRanks: readonly ItemState[] = [
  'failed',
  'caught',
  'waiting',
  'running',
  'succeeded',
  'not reached',
];

/** The items of a map: those that failed first, then those that wait or run, each with its steps. */
function Items({
  drawn,
  node,
  part,
  iteration,
  items,
  isAtWork,
}: {
  drawn: Drawn;
  node: ShownNode;
  part: PartNode<ShownStep>;
  iteration: string;
  items: readonly unknown[];
  isAtWork: boolean;
}) {
  const [count, setCount] = useState(itemsShown);
  const { tries } = drawn;
  const rows = useMemo(
    () =>
      items
        .map((item, index) => ({
          item,
          index,
          state: itemState(part.nodes, itemIteration(iteration, index), tries),
        }))
        .sort((a, b) => itemRanks.indexOf(a.state) - itemRanks.indexOf(b.state)),
    [items, part, iteration, tries],
  );
  const failed = rows.filter(({ state }) => state === 'failed' || state === 'caught').length;
  return (
    <>
      {failed > 0 && (
        <p className="muted">
          {failed} of {rows.length} failed.
        </p>
      )}
      <ol className="run-items" aria-label={`Items of ${visible(node.step.namespace)}`}>
        {rows.slice(0, count).map(({ item, index, state }, rank) => (
          <li key={index}>
            <Part
              title={
                <span className="facts">
                  <strong>Item {index}</strong>
                  {state === 'not reached' ? (
                    <span className="state off">Not reached</span>
                  ) : (
                    <RunState state={state} />
                  )}
                  <bdi className="muted">{oneLine(item, 80)}</bdi>
                </span>
              }
              isOpen={rank === 0 && (state === 'failed' || state === 'caught')}
            >
              <Sequence
                drawn={drawn}
                nodes={part.nodes}
                iteration={itemIteration(iteration, index)}
                isAtWork={isAtWork && state === 'running'}
              />
            </Part>
          </li>
        ))}
      </ol>
      {rows.length > count && (
        <button type="button" className="button small" onClick={() => setCount(count + itemsMore)}>
          Show {Math.min(itemsMore, rows.length - count)} more of {rows.length} items
        </button>
      )}
    </>
  );
}

type PlaceState = RunDetail['state'] | RunStep['state'] | 'disabled' | 'not reached';

function stateOf(
  { run, tries: find }: Drawn,
  { node, iteration, isNext }: { node: ShownNode; iteration: string; isNext: boolean },
): PlaceState {
  const last = find(node.position, iteration).at(-1);
  // The record of a block ends when it has decided. Until its steps have ended, it is as they are.
  const unfinished = isOver(run) ? undefined : unfinishedState(node, iteration, find);
  if (unfinished !== undefined) return run.state === 'waiting' ? 'waiting' : unfinished;
  if (isNext && last?.state !== 'waiting') return 'running';
  if (last !== undefined) return last.state;
  return node.step.step?.disabled === true ? 'disabled' : 'not reached';
}

function Head({
  node: {
    step: { namespace, step },
    position,
  },
  tries,
  state,
  fromMs,
  toMs,
}: {
  node: ShownNode;
  tries: readonly RunStep[];
  state: PlaceState;
  fromMs: number;
  toMs: number;
}) {
  const percent = (ms: number) => (ms / (toMs - fromMs)) * 100;
  const worked = tries.reduce((sum, one) => sum + Date.parse(one.ended_at) - Date.parse(one.started_at), 0);
  const waitsSinceMs = Date.parse(tries.at(-1)?.ended_at ?? '');
  return (
    <header className="run-step-head">
      <span className="facts">
        <span className="muted">{position + 1}</span>
        <strong>{visible(namespace)}</strong>
        {step !== undefined && <StepKind step={step} />}
      </span>
      <span className="facts">
        {tries.length > 0 && (
          <span className="muted">{worked === 0 ? '< 1 ms' : formatDuration(worked)}</span>
        )}
        {state === 'disabled' || state === 'not reached' ? (
          <span className="state off">{state === 'disabled' ? 'Disabled' : 'Not reached'}</span>
        ) : (
          <RunState state={state} />
        )}
      </span>
      {tries.length > 0 && (
        <span className="step-times" aria-hidden="true">
          {tries.map((one) => {
            const start = Date.parse(one.started_at);
            return (
              <span
                key={`${one.try} ${one.started_at}`}
                className={one.state === 'failed' || one.state === 'caught' ? 'bad' : undefined}
                style={{
                  left: `${percent(start - fromMs)}%`,
                  width: `${percent(Date.parse(one.ended_at) - start)}%`,
                }}
              />
            );
          })}
          {state === 'waiting' && waitsSinceMs < toMs && (
            <span
              className="waits"
              style={{
                left: `${percent(waitsSinceMs - fromMs)}%`,
                width: `${percent(toMs - waitsSinceMs)}%`,
              }}
            />
          )}
        </span>
      )}
    </header>
  );
}

/** `index`: its place among all tries of the step, in whichever attempt of the blocks around it. */
function tryName({ attempt }: RunStep, index: number, count: number): string {
  const name = `Try ${index + 1} of ${count}`;
  return attempt === '' ? name : `${name}, attempt ${attempt} of the block`;
}

function Try({
  record,
  step,
  name,
  isAtFault,
}: {
  record: RunStep;
  step: WorkflowStep | undefined;
  /** Undefined: there is one only. */
  name: string | undefined;
  /** Its error is that of the run, which is shown above. */
  isAtFault: boolean;
}) {
  const { error, logs } = record;
  return (
    <div className="run-try">
      {name !== undefined && (
        <h3 className="facts">
          {name} <RunState state={record.state} />
          <span className="muted">{formatClock(Date.parse(record.started_at))}</span>
        </h3>
      )}
      {error !== null && (
        <div className="try-error">
          <pre className="failure-text">{visible(`${error.code}: ${error.msg}`)}</pre>
          {!isAtFault && (
            <StackView stack={error.stack} message={`${error.code}: ${error.msg}`} code={codeOf(step)} />
          )}
        </div>
      )}
      {logs.length > 0 && (
        <Part title={`Logs (${logs.length})`} isOpen={record.state !== 'succeeded'}>
          <LogLines lines={logs} />
        </Part>
      )}
      {isFilled(record.input) && (
        <Part title="Input" isOpen={record.state !== 'succeeded'}>
          <JsonView value={record.input} label={`Input of ${record.namespace}`} />
        </Part>
      )}
      {isFilled(record.exports) ? (
        <Part title="Exports" isOpen={false}>
          <JsonView value={record.exports} label={`Exports of ${record.namespace}`} />
        </Part>
      ) : (
        record.state === 'succeeded' && <p className="muted">It exported nothing.</p>
      )}
    </div>
  );
}

/** What is long is drawn when it is opened. */
function Part({ title, isOpen, children }: { title: ReactNode; isOpen: boolean; children: ReactNode }) {
  const [open, setOpen] = useState(isOpen);
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {open && children}
    </details>
  );
}

function isFilled(value: unknown): boolean {
  return value !== null && (typeof value !== 'object' || Object.keys(value).length > 0);
}
