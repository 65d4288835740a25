import { useState } from 'react';
import { newBlock } from '~/editing/block-draft.ts';
import { type BlockKind, blockKinds, blocks } from '~/editing/blocks.ts';
import type { StepDraft } from '~/editing/step-draft.ts';
import { actionStep, firstCode, newStep } from '~/editing/workflow-draft.ts';
import { ComponentPicker } from './component-picker.tsx';
import { Icon } from './icon.tsx';
import { shortened, visible } from './plain-text.ts';
import { useInView } from './use-in-view.ts';

/** Adds a step to the end of a list: a component, a block or code. */
export function AddStep({
  taken,
  place,
  onAdd,
}: {
  /** Names that other steps have. */
  taken: readonly string[];
  /** Where, in words; empty: to the workflow itself. */
  place: string;
  onAdd: (step: StepDraft) => void;
}) {
  const [choosing, setChoosing] = useState<'component' | 'block'>();
  /** The button that gets the focus back when nothing was chosen. */
  const [returned, setReturned] = useState<'component' | 'block'>();
  const cancel = () => {
    setReturned(choosing);
    setChoosing(undefined);
  };
  const add = (step: StepDraft) => {
    onAdd(step);
    setReturned(undefined);
    setChoosing(undefined);
  };
  if (choosing === 'component') {
    return (
      <div className="card">
        <ComponentPicker
          type="action"
          onCancel={cancel}
          onChosen={(component) => add(actionStep(taken, component))}
        />
      </div>
    );
  }
  if (choosing === 'block') {
    return (
      <BlockChoice
        onCancel={cancel}
        onChosen={(kind) => add(newStep(taken, { word: kind, block: newBlock(kind) }))}
      />
    );
  }
  const size = place === '' ? 'button' : 'button small';
  const to = place !== '' && <span className="off-screen"> to {visible(shortened(place, 150))}</span>;
  return (
    <div className="edit-row">
      <button
        type="button"
        className={size}
        // biome-ignore lint/a11y/noAutofocus: the choice that had the focus is gone.
        autoFocus={returned === 'component'}
        onClick={() => setChoosing('component')}
      >
        <Icon name="plus" size={16} /> Add a component{to}
      </button>
      <button
        type="button"
        className={size}
        // biome-ignore lint/a11y/noAutofocus: the choice that had the focus is gone.
        autoFocus={returned === 'block'}
        onClick={() => setChoosing('block')}
      >
        <Icon name="plus" size={16} /> Add a block{to}
      </button>
      <button
        type="button"
        className={size}
        onClick={() => add(newStep(taken, { word: 'code', code: firstCode }))}
      >
        <Icon name="plus" size={16} /> Add a step of code{to}
      </button>
    </div>
  );
}

function BlockChoice({ onChosen, onCancel }: { onChosen: (kind: BlockKind) => void; onCancel: () => void }) {
  const section = useInView<HTMLElement>();
  return (
    <section className="card edit-body" aria-label="Choose a block" ref={section}>
      <ul className="choices begin">
        {blockKinds.map((kind, index) => (
          <li key={kind}>
            <button
              type="button"
              className="choice-row as-button"
              // biome-ignore lint/a11y/noAutofocus: it was opened by a button that is gone.
              autoFocus={index === 0}
              onClick={() => onChosen(kind)}
            >
              <strong>{blocks[kind].name}</strong>
              <span className="choice-text">{blocks[kind].text}</span>
            </button>
          </li>
        ))}
      </ul>
      <div className="edit-row">
        <button type="button" className="button small" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </section>
  );
}
