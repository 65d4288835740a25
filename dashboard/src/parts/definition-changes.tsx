import {
  type Changes,
  hasChanges,
  movedWords,
  type StepChange,
  type ValueChange,
} from '~/editing/definition-diff.ts';
import { LineDiff } from './line-diff.tsx';
import { oneLine, shortened, visible } from './plain-text.ts';

/** Values of props and settings are shown up to here. */
const valueLength = 300;

/** What is other in one definition than in another, step by step. */
export function DefinitionChanges({ changes, none }: { changes: Changes; none: string }) {
  if (!hasChanges(changes)) return <p className="muted">{none}</p>;
  return (
    <ul className="change-list">
      {changes.triggers.map(({ kind, text }) => (
        <li key={`trigger ${kind} ${text}`}>
          <p>
            <Kind kind={kind} /> Trigger: <bdi>{oneLine(text, valueLength)}</bdi>
          </p>
        </li>
      ))}
      {changes.steps.map((change) => (
        <li key={`step ${change.namespace}`}>
          <StepChanges change={change} />
        </li>
      ))}
      {changes.settings.map((change) => (
        <li key={`setting ${change.name}`}>
          <p>
            <Kind kind="changed" /> Setting <ValueChanged change={change} />
          </p>
        </li>
      ))}
    </ul>
  );
}

function Kind({ kind }: { kind: 'added' | 'removed' | 'changed' }) {
  const [style, word] =
    kind === 'added' ? ['good', 'Added'] : kind === 'removed' ? ['bad', 'Removed'] : ['busy', 'Changed'];
  return <span className={`state ${style}`}>{word}</span>;
}

function StepChanges({ change }: { change: StepChange }) {
  const { namespace, kind, moved, disabled, note, made, code, within, props, fields } = change;
  const words = [
    kind === 'changed' ? movedWords(moved, within) : within && `in ${within.after || within.before}`,
    disabled === undefined ? undefined : disabled ? 'now disabled' : 'no longer disabled',
    note === undefined ? undefined : `note: ${note.after === '' ? 'removed' : note.after}`,
    made === undefined
      ? undefined
      : kind === 'added'
        ? made.after
        : kind === 'removed'
          ? made.before
          : `${made.before} became ${made.after}`,
  ].filter((word) => word !== undefined);
  return (
    <section aria-label={`Changes of step ${namespace}`}>
      <p>
        <Kind kind={kind} /> Step <strong>{visible(shortened(namespace, 100))}</strong>
        {words.length > 0 && <>: {visible(shortened(words.join('; '), valueLength))}</>}
      </p>
      {props.length + fields.length > 0 && (
        <ul>
          {fields.map((one) => (
            <li key={`field ${one.name}`}>
              <ValueChanged change={one} />
            </li>
          ))}
          {props.map((one) => (
            <li key={one.name}>
              Prop <ValueChanged change={one} />
            </li>
          ))}
        </ul>
      )}
      {code !== undefined &&
        (kind === 'changed' ? (
          <LineDiff before={code.before} after={code.after} label={`Code of ${namespace}, what changed`} />
        ) : (
          <details>
            <summary>Code</summary>
            <LineDiff before={code.before} after={code.after} label={`Code of ${namespace}`} />
          </details>
        ))}
    </section>
  );
}

function ValueChanged({ change: { name, before, after } }: { change: ValueChange }) {
  return (
    <>
      <strong>{visible(shortened(name, 100))}</strong>:{' '}
      {before !== undefined && <del>{oneLine(before, valueLength)}</del>}
      {before !== undefined && after !== undefined && ' became '}
      {after !== undefined && <ins>{oneLine(after, valueLength)}</ins>}
      {after === undefined && ', which is no longer given'}
    </>
  );
}
