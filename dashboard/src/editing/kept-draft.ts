import { useMemo, useSyncExternalStore } from 'react';
import type { StepDraft } from './step-draft.ts';
import type { WorkflowDraft } from './workflow-draft.ts';

/** A draft that was not deployed yet, as this tab keeps it. */
export interface KeptDraft {
  /** The deployment that it began with; null: of a workflow that is not there yet. */
  base: string | null;
  /** Epoch ms. */
  atMs: number;
  draft: WorkflowDraft;
}

/** Larger ones are not kept: a tab has about five megabytes for all. */
const charactersMax = 2_000_000;

function keyOf(id: string): string {
  return `millrace.draft.${id}`;
}

/** Keeps it until the tab is closed. False: it could not be. What is secret is left out, and has to be given again. */
export function keepDraft(id: string, kept: KeptDraft): boolean {
  try {
    const text = JSON.stringify({ ...kept, draft: withoutSecrets(kept.draft) });
    if (text.length > charactersMax) return false;
    sessionStorage.setItem(keyOf(id), text);
    tell();
    return true;
  } catch {
    return false;
  }
}

export function keptDraft(id: string): KeptDraft | undefined {
  return read(keptText(id));
}

/**
 * The same, for a page that shows it: kept up to date. Who leaves the form has it kept at the end, when the page that
 * comes next is drawn already.
 */
export function useKeptDraft(id: string): KeptDraft | undefined {
  const text = useSyncExternalStore(listen, () => keptText(id));
  return useMemo(() => read(text), [text]);
}

const listeners = new Set<() => void>();

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(): void {
  for (const listener of listeners) listener();
}

function keptText(id: string): string | null {
  try {
    return sessionStorage.getItem(keyOf(id));
  } catch {
    return null;
  }
}

function read(text: string | null): KeptDraft | undefined {
  try {
    return text === null ? undefined : (JSON.parse(text) as KeptDraft);
  } catch {
    return undefined;
  }
}

export function dropDraft(id: string): void {
  try {
    sessionStorage.removeItem(keyOf(id));
    tell();
  } catch {
    // Then there is none.
  }
}

/** Shown for a secret that the service has; sent back, it stays. */
const mask = '••••••••';

function withoutSecrets(draft: WorkflowDraft): WorkflowDraft {
  return {
    ...draft,
    steps: draft.steps.map(stepWithoutSecrets),
    triggers: draft.triggers.map((trigger) => {
      const { auth, ...props } = trigger.props as { auth?: { type?: string } };
      return auth === undefined ? trigger : { ...trigger, props: { ...props, auth: { type: auth.type } } };
    }),
  };
}

function stepWithoutSecrets(step: StepDraft): StepDraft {
  const { block } = step;
  return {
    ...step,
    props: Object.fromEntries(
      Object.entries(step.props).filter(
        ([name, value]) =>
          value === mask || step.definitions.find((one) => one.name === name)?.secret !== true,
      ),
    ),
    ...(block === undefined
      ? {}
      : {
          block: {
            ...block,
            parts: block.parts.map((part) => ({ ...part, steps: part.steps.map(stepWithoutSecrets) })),
          },
        }),
  };
}
