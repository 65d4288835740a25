import { useState } from 'react';
import { useWorkflows } from '~/api/workflow-queries.ts';
import { newPart } from '~/editing/block-draft.ts';
import { blocks, hasBranches, isStructured } from '~/editing/blocks.ts';
import type { KnownStep } from '~/editing/code-context.ts';
import { withoutPlace } from '~/editing/code-problem.ts';
import type { Rule } from '~/editing/rule-draft.ts';
import type { BlockDraft, PartDraft, StepDraft } from '~/editing/step-draft.ts';
import type { StepProblem } from '~/editing/step-problem.ts';
import { EditRule } from './edit-rule.tsx';
import { Field, FieldProblem, fieldAttributes } from './field.tsx';
import { NumberInput } from './number-input.tsx';
import { shortened, visible } from './plain-text.ts';
import { ReadMore } from './read-more.tsx';
import { useExpressionPaths } from './use-expression-paths.ts';
import { ValueInput } from './value-input.tsx';

const concurrencyMax = 100;

/** True for a field whose problem the form of a block shows at that field. */
export function isBlockField(field: string): boolean {
  return /^(?:branches|items|concurrency|value|if|otherwise|reason|seconds|workflow|event|on_error)\b/.test(
    field,
  );
}

/** The fields of a block. The steps in it are edited below, by the form of the workflow. */
export function EditBlock({
  step: { key, block },
  known,
  ownerId,
  problem,
  onChange,
}: {
  step: StepDraft & { block: BlockDraft };
  known: readonly KnownStep[];
  ownerId: string;
  problem: StepProblem | undefined;
  onChange: (change: Partial<StepDraft>) => void;
}) {
  const { kind, fields } = block;
  const paths = useExpressionPaths(known, ownerId);
  const told =
    problem === undefined
      ? undefined
      : { field: problem.field, message: withoutPlace(problem.error.message) };
  const at = (field: string) => (isAt(told?.field, field) ? told?.message : undefined);
  const change = (next: Partial<BlockDraft>) => onChange({ block: { ...block, ...next } });
  const set = (name: string, value: unknown) => {
    const { [name]: _before, ...others } = fields;
    change({ fields: value === undefined ? others : { ...others, [name]: value } });
  };
  const value = (name: string, label: string, hint: string, placeholder?: string) => (
    <ValueInput
      id={`${key}-${name}`}
      name={label}
      hint={hint}
      placeholder={placeholder ?? ''}
      value={fields[name]}
      onChange={(next) => set(name, next)}
      paths={paths}
      problem={at(name)}
    />
  );
  return (
    <>
      <p className="muted">{blocks[kind].text}</p>
      <ReadMore page="how-it-works/control-flow">Branches, loops and other blocks</ReadMore>
      {kind === 'switch' &&
        value('value', 'Value', 'It is compared with the cases', '{{steps.trigger.event.body.kind}}')}
      {kind === 'map' && (
        <>
          {value('items', 'Items', 'A list, or an expression that gives one', '{{steps.trigger.event.body}}')}
          <NumberInput
            id={`${key}-concurrency`}
            name="Items at the same time"
            hint={`Empty: 10. At most ${concurrencyMax}`}
            max={concurrencyMax}
            value={fields.concurrency as number | undefined}
            onChange={(next) => set('concurrency', next)}
            problem={at('concurrency')}
          />
        </>
      )}
      {kind === 'filter' && (
        <EditRule
          id={`${key}-if`}
          name="Rule"
          rule={fields.if as Rule}
          onChange={(rule) => set('if', rule)}
          paths={paths}
          at="if"
          problem={told}
        />
      )}
      {kind === 'filter' && (
        <Choice
          id={`${key}-otherwise`}
          name="When the rule is not met"
          value={(fields.otherwise as string | undefined) ?? 'end'}
          choices={{ end: 'The run ends', leave: 'The block around it is left: the branch, or the item' }}
          onChange={(next) => set('otherwise', next)}
          problem={at('otherwise')}
        />
      )}
      {kind === 'delay' && value('seconds', 'Seconds', 'A number, or an expression that gives one')}
      {(kind === 'filter' || kind === 'end') && (
        <ReasonField
          id={`${key}-reason`}
          value={fields.reason as string | undefined}
          onChange={(next) => set('reason', next)}
          problem={at('reason')}
        />
      )}
      {kind === 'call' && (
        <>
          <WorkflowChoice
            id={`${key}-workflow`}
            ownerId={ownerId}
            value={fields.workflow as string | undefined}
            onChange={(next) => set('workflow', next)}
            problem={at('workflow')}
          />
          {value('event', 'Event', 'What the workflow finds as steps.trigger.event. Empty: {}')}
        </>
      )}
      {hasBranches(kind) && (
        <Branches
          id={key}
          block={block}
          paths={paths}
          problem={told}
          onChange={(parts) => change({ parts })}
        />
      )}
      {isStructured(kind) && (
        <Choice
          id={`${key}-on-error`}
          name="When a step in it fails"
          value={(fields.on_error as string | undefined) ?? 'fail'}
          choices={{
            fail: 'The run fails',
            continue: 'Continue after the block',
            branch: 'Run other steps, then continue',
          }}
          onChange={(next) => {
            const hasPart = block.parts.some((part) => part.kind === 'error');
            change({
              fields: { ...fields, on_error: next },
              parts:
                next === 'branch' && !hasPart
                  ? [...block.parts, newPart({ kind: 'error', slug: '' })]
                  : block.parts,
            });
          }}
          problem={at('on_error')}
        />
      )}
    </>
  );
}

/** True when a problem is about a field or something in it. */
function isAt(told: string | undefined, field: string): boolean {
  return told === field || told?.startsWith(`${field}.`) === true || told?.startsWith(`${field}[`) === true;
}

interface FieldOf<T> {
  id: string;
  value: T;
  onChange: (value: T) => void;
  problem: string | undefined;
}

function Choice({
  id,
  name,
  value,
  choices,
  onChange,
  problem,
}: FieldOf<string> & { name: string; choices: Readonly<Record<string, string>> }) {
  return (
    <Field id={id} name={name} problem={problem}>
      <select
        {...fieldAttributes({ id, problem })}
        className="select"
        value={value}
        onChange={({ target }) => onChange(target.value)}
      >
        {Object.entries(choices).map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
    </Field>
  );
}

function ReasonField({ id, value, onChange, problem }: FieldOf<string | undefined>) {
  const name = (
    <>
      Reason <span className="muted">(optional)</span>
    </>
  );
  const hint = 'Shown with the run that ends here';
  return (
    <Field id={id} name={name} hint={hint} problem={problem}>
      <input
        {...fieldAttributes({ id, hint, problem })}
        className="input"
        value={value ?? ''}
        onChange={({ target }) => onChange(target.value === '' ? undefined : target.value)}
      />
    </Field>
  );
}

/** A workflow of the same owner. */
function WorkflowChoice({
  id,
  ownerId,
  value,
  onChange,
  problem,
}: FieldOf<string | undefined> & { ownerId: string }) {
  const workflows = useWorkflows(ownerId, '');
  const rows = workflows.data?.pages.flatMap(({ data }) => data) ?? [];
  return (
    <Field id={id} name="Workflow" problem={problem}>
      <select
        {...fieldAttributes({ id, problem })}
        className="select"
        value={value ?? ''}
        onChange={({ target }) => onChange(target.value === '' ? undefined : target.value)}
      >
        <option value="">Choose …</option>
        {value !== undefined && !rows.some((row) => row.id === value) && (
          <option value={value}>{visible(shortened(value, 100))}</option>
        )}
        {rows.map((row) => (
          <option key={row.id} value={row.id}>
            {visible(shortened(row.name, 100))}
          </option>
        ))}
      </select>
      {workflows.hasNextPage && (
        <button
          type="button"
          className="link"
          disabled={workflows.isFetchingNextPage}
          onClick={() => void workflows.fetchNextPage()}
        >
          More workflows
        </button>
      )}
    </Field>
  );
}

/** The branches of a block: their names, and when each is taken. */
function Branches({
  id,
  block: { kind, parts },
  paths,
  problem,
  onChange,
}: {
  id: string;
  block: BlockDraft;
  paths: readonly string[];
  problem: { field: string; message: string } | undefined;
  onChange: (parts: PartDraft[]) => void;
}) {
  const [removed, setRemoved] = useState<{ part: PartDraft; index: number }>();
  const branches = parts.filter((part) => part.kind === 'branch');
  const others = parts.filter((part) => part.kind !== 'branch');
  const isGone = removed !== undefined && !branches.includes(removed.part);
  const changeAll = (next: PartDraft[]) => onChange([...next, ...others]);
  const decides = kind === 'switch' ? 'case' : 'if';
  const add = () => {
    const slugs = branches.map(({ slug }) => slug);
    let count = branches.length + 1;
    while (slugs.includes(`branch_${count}`)) count += 1;
    const rule = kind === 'switch' ? { case: '' } : { if: { value: '', condition: 'EXISTS' } };
    const isElse = kind !== 'parallel' && branches.at(-1)?.[decides] === undefined;
    const part = newPart({ kind: 'branch', slug: `branch_${count}`, ...rule });
    changeAll(branches.toSpliced(isElse ? branches.length - 1 : branches.length, 0, part));
  };
  return (
    <div className="branches">
      {branches.map((branch, index) => (
        <Branch
          key={branch.key}
          id={`${id}-${branch.key}`}
          branch={branch}
          index={index}
          count={branches.length}
          isParallel={kind === 'parallel'}
          decides={decides}
          paths={paths}
          problem={problem}
          onChange={(next) => changeAll(branches.with(index, next))}
          onMove={(by) => {
            const next = [...branches];
            next.splice(index + by, 0, ...next.splice(index, 1));
            changeAll(next);
          }}
          onRemove={() => {
            setRemoved({ part: branch, index });
            changeAll(branches.toSpliced(index, 1));
          }}
        />
      ))}
      {removed !== undefined && isGone && (
        <div className="note edit-row" role="status">
          <span>
            Branch {visible(shortened(removed.part.slug, 100))} was removed
            {removed.part.steps.length > 0 && ', with the steps in it'}.
          </span>
          <button
            type="button"
            className="button small"
            onClick={() => changeAll(branches.toSpliced(removed.index, 0, removed.part))}
          >
            Put it back
          </button>
        </div>
      )}
      <div>
        <button type="button" className="button small" onClick={add}>
          Add a branch
        </button>
      </div>
      {problem?.field === 'branches' && <FieldProblem id={`${id}-branches`} text={problem.message} />}
    </div>
  );
}

function Branch({
  id,
  branch,
  index,
  count,
  isParallel,
  decides,
  paths,
  problem,
  onChange,
  onMove,
  onRemove,
}: {
  id: string;
  branch: PartDraft;
  index: number;
  count: number;
  isParallel: boolean;
  decides: 'if' | 'case';
  paths: readonly string[];
  problem: { field: string; message: string } | undefined;
  onChange: (branch: PartDraft) => void;
  onMove: (by: number) => void;
  onRemove: () => void;
}) {
  const at = `branches[${index}]`;
  const name = visible(shortened(branch.slug, 100));
  const isElse = branch[decides] === undefined;
  const told = (field: string) => (isAt(problem?.field, field) ? problem?.message : undefined);
  const isSlug = told(`${at}.slug`) !== undefined;
  return (
    <fieldset className="branch">
      <legend>Branch {name}</legend>
      <div className="edit-head">
        <div className="field branch-name">
          <label className="label" htmlFor={`${id}-slug`}>
            Name of the branch
          </label>
          <input
            id={`${id}-slug`}
            className="input mono"
            maxLength={100}
            spellCheck={false}
            aria-invalid={isSlug || undefined}
            aria-describedby={isSlug ? `${id}-slug-problem` : undefined}
            value={branch.slug}
            onChange={({ target }) => onChange({ ...branch, slug: target.value })}
          />
          <FieldProblem id={`${id}-slug`} text={told(`${at}.slug`)} />
        </div>
        <span className="edit-buttons">
          <button
            type="button"
            className="button small quiet"
            disabled={index === 0}
            aria-label={`Move branch ${name} up`}
            onClick={() => onMove(-1)}
          >
            ↑
          </button>
          <button
            type="button"
            className="button small quiet"
            disabled={index === count - 1}
            aria-label={`Move branch ${name} down`}
            onClick={() => onMove(1)}
          >
            ↓
          </button>
          <button type="button" className="button small quiet" disabled={count === 1} onClick={onRemove}>
            Remove<span className="off-screen"> branch {name}</span>
          </button>
        </span>
      </div>
      {(isParallel || isElse || index === count - 1) && (
        <label className="check">
          <input
            type="checkbox"
            checked={isElse}
            onChange={({ target }) => {
              const { if: _if, case: _case, ...rest } = branch;
              const rule = decides === 'case' ? { case: '' } : { if: { value: '', condition: 'EXISTS' } };
              onChange(target.checked ? rest : { ...rest, ...rule });
            }}
          />
          {isParallel ? 'Always taken' : 'Taken when no other branch is'}
          <span className="off-screen">: branch {name}</span>
        </label>
      )}
      {!isElse && decides === 'if' && (
        <EditRule
          id={`${id}-if`}
          name={`Rule of branch ${name}`}
          rule={branch.if as Rule}
          onChange={(rule) => onChange({ ...branch, if: rule })}
          paths={paths}
          at={`${at}.if`}
          problem={problem}
        />
      )}
      {!isElse && decides === 'case' && (
        <ValueInput
          id={`${id}-case`}
          name={`Case of branch ${name}`}
          value={branch.case}
          onChange={(value) => onChange({ ...branch, case: value ?? '' })}
          paths={paths}
        />
      )}
      <FieldProblem id={id} text={isElse || decides === 'case' ? told(`${at}.${decides}`) : undefined} />
      {problem?.field === at && <FieldProblem id={`${id}-whole`} text={problem.message} />}
    </fieldset>
  );
}
