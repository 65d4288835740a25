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
    return true;
  } catch {
    return false;
  }
}

export function keptDraft(id: string): KeptDraft | undefined {
  try {
    const text = sessionStorage.getItem(keyOf(id));
    return text === null ? undefined : (JSON.parse(text) as KeptDraft);
  } catch {
    return undefined;
  }
}

export function dropDraft(id: string): void {
  try {
    sessionStorage.removeItem(keyOf(id));
  } catch {
    // Then there is none.
  }
}

/** Shown for a secret that the service has; sent back, it stays. */
const mask = '••••••••';

function withoutSecrets(draft: WorkflowDraft): WorkflowDraft {
  return {
    ...draft,
    steps: draft.steps.map((step) => ({
      ...step,
      props: Object.fromEntries(
        Object.entries(step.props).filter(
          ([name, value]) =>
            value === mask || step.definitions.find((one) => one.name === name)?.secret !== true,
        ),
      ),
    })),
    triggers: draft.triggers.map((trigger) => {
      const { auth, ...props } = trigger.props as { auth?: { type?: string } };
      return auth === undefined ? trigger : { ...trigger, props: { ...props, auth: { type: auth.type } } };
    }),
  };
}
