import type { ConfigurableProp } from '#sdk';
import type { BlockKind, Part } from './blocks.ts';

/** A step as it is edited. */
export interface StepDraft {
  /** A key within this page: it stays when the step is renamed or moved. */
  key: string;
  namespace: string;
  disabled: boolean;
  /** For people; '' for none. */
  note: string;
  /** Its own code; null: it is a component or a block. */
  code: string | null;
  component: ComponentChoice | null;
  props: Record<string, unknown>;
  /** Props that its code has, as far as that is known. */
  definitions: ConfigurableProp[];
  /** Left out: it is no block. */
  block?: BlockDraft | undefined;
  /** Left out: that of the run settings. */
  timeoutSeconds?: number | undefined;
  retries?: { times: number; seconds: number } | undefined;
}

export interface ComponentChoice {
  /** As the API takes it: `key@version` or sc_…. */
  ref: string;
  name: string;
  version: string;
  code: string | null;
}

/** A block as it is edited. */
export interface BlockDraft {
  kind: BlockKind;
  /** Its fields as the API takes them, without those of its parts. */
  fields: Record<string, unknown>;
  /** Branches first. The steps after an error stay here while `on_error` is another choice. */
  parts: PartDraft[];
}

export interface PartDraft extends Part {
  /** A key within this page: it stays when the branch is renamed or moved. */
  key: string;
  steps: StepDraft[];
}

let keys = 0;
export function newKey(): string {
  keys += 1;
  return `${Date.now().toString(36)}-${keys}`;
}
