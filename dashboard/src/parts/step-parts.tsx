import { useState } from 'react';
import type { WorkflowStep } from '#sdk';
import { blockName, ownFields } from '~/editing/blocks.ts';
import { CodeEditor } from './code-editor.tsx';
import { JsonView } from './json-view.tsx';
import { shortened, visible } from './plain-text.ts';

/** The text that a step runs, which lines of its stacks are of. */
export function codeOf(step: WorkflowStep | undefined): string | undefined {
  if (step !== undefined && step.block !== null) return undefined;
  return step?.code_raw ?? step?.savedComponent?.code;
}

/** What a step is made of, in a few words. */
export function StepKind({ step }: { step: WorkflowStep }) {
  const key = step.component_key ?? step.savedComponent?.key ?? null;
  if (step.block !== null) return <span className="muted">{blockName(String(step.block.block))}</span>;
  if (step.code_raw !== null) return <span className="muted">custom code</span>;
  return (
    <span className="muted">
      <bdi>{visible(shortened(key ?? step.savedComponent?.id ?? 'a component', 100))}</bdi>{' '}
      {visible(shortened(step.savedComponent?.version ?? '', 40))}
    </span>
  );
}

/** Props as they are configured, expressions and all; of secrets there is only a mask. */
export function StepProps({ step }: { step: WorkflowStep }) {
  const props =
    step.block === null
      ? (JSON.parse(step.configured_props_json ?? '{}') as Record<string, unknown>)
      : ownFields(step.block);
  if (Object.keys(props).length === 0) return null;
  return (
    <details>
      <summary>{step.block === null ? 'Props' : 'Fields'}</summary>
      <JsonView value={props} label={`Props of ${step.namespace}`} />
    </details>
  );
}

/** Its code, to be read; the editor that shows it is loaded when it is opened. */
export function StepCode({ step }: { step: WorkflowStep }) {
  const [open, setOpen] = useState(false);
  const code = codeOf(step);
  if (code === undefined) return null;
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Code</summary>
      {open && <CodeEditor label={`Code of the step ${visible(step.namespace)}`} value={code} />}
    </details>
  );
}
